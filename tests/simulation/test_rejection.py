"""The rejection method: a learner on a log that somebody else made."""

import numpy as np

from belated import learners
from belated.core.rounds import FOREVER
from belated.simulation.rejection import LoggedRows, Rejection


def test_a_learner_may_wait_for_longer_than_can_be_counted() -> None:
    ones = np.ones(50)
    rows = LoggedRows(np.zeros(50, int), ones, np.zeros(50, int), ones, np.zeros(50), np.zeros(50), 1.0)
    for settled in (FOREVER, 1 << 70):
        run = Rejection(learners.tune("ucb", settled=settled), 2, 50)
        run.offer(rows)
        assert run.count("outstanding") == run.count("round") - 1
