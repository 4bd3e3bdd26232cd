"""What live bandits and simulations share: how code is compiled, the protocol of rounds, the solver, random numbers."""
