"""Simulate before you ship: what learners would do on data like yours, for the page `/simulate`.

A plan says what is asked for (`plan`). A process of its own makes a problem of it (`problem`, `past`), plays it run
after run, and tells after each what has come out so far (`findings`). The service starts that process, passes on what
it tells, and ends it when nobody listens any more (`process`).
"""
