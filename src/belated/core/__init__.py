"""What live bandits and simulations share.

How code is compiled, the protocol of rounds, the solver, random numbers, and how values are shown.
"""
