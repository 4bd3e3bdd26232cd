"""Replays: what a log says of its delays, of what learners would have done on it, and of its arms."""

from belated.replay.delay_profile import DelayGroup, DelayProfile, profile
from belated.replay.off_policy import OffPolicy, Range, off_policy, value_of, weighted
from belated.replay.replay import Replay, Reproduced, replay_log
from belated.replay.values import LearnerValue, learner_values

__all__ = [
    "DelayGroup",
    "DelayProfile",
    "LearnerValue",
    "OffPolicy",
    "Range",
    "Replay",
    "Reproduced",
    "learner_values",
    "off_policy",
    "profile",
    "replay_log",
    "value_of",
    "weighted",
]
