"""The delays in a log: quantiles, what is missing, and whether they depend on anything."""

import json

import numpy as np

from belated.logs import Log
from belated.replay import profile


def test_what_is_infinite_or_not_known_is_none_in_json() -> None:
    """Half of the outcomes of b never come, and none of a: no median of a, and no longest delay."""
    log = Log.from_arrays(["a", "b", "a", "b"], rewards=[None, 1.0, None, None], waits=[np.inf, 0.0, np.inf, np.inf])
    found = profile(log)
    assert found is not None
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    first, second = plain["by_arm"]
    assert (first["quantiles"], first["longest"], first["missing"]) == ([None] * 3, None, 1.0)
    assert (second["quantiles"], second["longest"], second["missing"]) == ([0.0, None, None], 0.0, 0.5)
    assert plain["by_outcome"][1]["missing"] is None
    assert plain["unit"] == "decisions"
