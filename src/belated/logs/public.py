"""Logs from public data that other packages carry: nothing of them is copied here, and nothing is downloaded.

open-bandit-all, open-bandit-men, open-bandit-women
    Fashion items shown to visitors of an online shop, and whether they were clicked on: 10,000 rows for each campaign
    and each of two ways to choose, with true propensities (Saito, Aihara, Matsutani & Narita 2021, Open Bandit Dataset
    and Pipeline; CC BY 4.0). The sample in the package `obp`.
actg175
    2,139 patients with HIV, four treatments at random (Hammer et al. 1996, New England Journal of Medicine 335). The
    outcome is whether the disease progressed within two years. The file in the package `lifelines`.
rossi
    432 people released from prison, of whom half had financial aid, at random (Rossi, Berk & Lenihan 1980, Money, Work
    and Crime). The outcome is whether they were arrested within a year. The file in the package `lifelines`.

Events come when they happen, and their absence is known only at the end: delays depend on the outcome.
"""

import hashlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import BelatedError, needs_extra, unknown
from belated.logs.log import Log

Integers = NDArray[np.int64]

HORIZON = 730
"""Days after which a patient of ACTG 175 without an event counts as well."""
YEAR = 52
"""Weeks after which somebody of the Rossi data who was not arrested counts as well."""
POLICIES = ("random", "bts")
"""The two ways to choose of the Open Bandit data: uniformly, and Bernoulli Thompson sampling."""
TREATMENTS = ("zidovudine", "zidovudine + didanosine", "zidovudine + zalcitabine", "didanosine")


class MissingData(BelatedError, LookupError):
    """A package that carries public data is not installed, or has other data than expected."""


class DataSet(NamedTuple):
    """One set of public data."""

    package: str
    install: str
    """How to install the package."""
    files: dict[str, str]
    """Path in the package -> its SHA-256."""
    load: Callable[[], Log]
    unit: str | None
    """In which it says how long outcomes took; None where it does not say."""

    @property
    def has_delays(self) -> bool:
        return self.unit is not None


class OpenBandit(NamedTuple):
    """Rows of the Open Bandit data."""

    log: Log
    positions: Integers
    """Where on the page each item was shown: 0, 1 or 2."""


_OPEN_BANDIT = {
    "all": (
        "7168295b6e0a9eabcf3392320a5dd434e542b68e705d5cd9491499af589812f1",
        "0ad874e4dbf6902f0845dd478ad8dde5ef6903583d3ffaace78411bdad064106",
    ),
    "men": (
        "ede6d08c6877f99cd3770f7d09e26c738e6aa6de4445ccccfb1356ba5d06b1eb",
        "db6d1f7ed2d591ba521533e45286d4c1fba7fe57a8ad2e80342210335f43c527",
    ),
    "women": (
        "e65f3bd3beb17664fa69cc129bf7bf852a775f8ffa630506e505fc905315bb34",
        "e5d1b49a39b608585a2f3014a3f54970430cd37a495c1b73fceb85cdf428a5b8",
    ),
}
"""SHA-256 of the files of each campaign, in the order of `POLICIES`."""
_ACTG175 = ("datasets/ACTG175.csv", "56fba31fa0d7bfbff9667b7149fd96a97c352e72aa582871a62a935e812f0e07")
_ROSSI = ("datasets/rossi.csv", "0214400170e07f3015a285edca2014cac0dae8aac125fcbaad642490e05f892c")


def _open_bandit_path(campaign: str, policy: str) -> str:
    return f"dataset/obd/{policy}/{campaign}/{campaign}.csv"


def read_open_bandit(campaign: str, policy: str = "random") -> OpenBandit:
    """Return the rows of a campaign (all, men or women) that were chosen by a policy (random or bts)."""
    if campaign not in _OPEN_BANDIT:
        raise unknown("campaign", campaign, _OPEN_BANDIT)
    if policy not in POLICIES:
        raise unknown("policy", policy, POLICIES)
    rows = _rows(
        f"open-bandit-{campaign}",
        _open_bandit_path(campaign, policy),
        ["timestamp", "item_id", "position", "click", "propensity_score"],
    )
    rows = rows.sort("timestamp", maintain_order=True)
    items = rows["item_id"].to_numpy().astype(np.int64)
    log = Log(
        labels=tuple(range(int(items.max()) + 1)),
        arms=items,
        rewards=rows["click"].to_numpy().astype(np.float64),
        propensities=rows["propensity_score"].to_numpy().astype(np.float64),
    )
    return OpenBandit(log, rows["position"].to_numpy().astype(np.int64) - 1)


class Followed(NamedTuple):
    """Patients who were followed until an event, or until they left."""

    arms: Integers
    days: NDArray[np.float64]
    """Until the event, or until the patient left."""
    event: NDArray[np.bool_]


def follow_actg175() -> Followed:
    """Return all 2,139 patients of ACTG 175, those included of whom nobody knows what became."""
    rows = _rows("actg175", _ACTG175[0], ["cens", "days", "arms"])
    return Followed(
        arms=rows["arms"].to_numpy().astype(np.int64),
        days=rows["days"].to_numpy().astype(np.float64),
        event=rows["cens"].to_numpy() == 1,
    )


def read_actg175() -> Log:
    """Return the patients of ACTG 175; a reward of 1 is two years without progression.

    Progression is a fall of CD4 cells by half, AIDS, or death. Its day is the delay; where there was none, the delay is
    two years. Patients who left before that without an event are left out: nobody knows what became of them.
    """
    arms, days, event = follow_actg175()
    failed = event & (days <= HORIZON)
    known = failed | (days >= HORIZON)
    return Log(
        labels=TREATMENTS,
        arms=arms[known],
        rewards=np.where(failed, 0.0, 1.0)[known],
        propensities=np.full(int(known.sum()), 1.0 / len(TREATMENTS)),
        waits=np.where(failed, days, float(HORIZON))[known],  # at one patient a day
        durations=np.where(failed, days, float(HORIZON))[known],
    )


def read_rossi() -> Log:
    """Return the people of the Rossi data; a reward of 1 is a year without an arrest.

    The week of the arrest is the delay; where there was none, the delay is the whole year.
    """
    rows = _rows("rossi", _ROSSI[0], ["week", "arrest", "fin"])
    arrested = rows["arrest"].to_numpy() == 1
    weeks = rows["week"].to_numpy().astype(np.float64)
    return Log(
        labels=("no aid", "aid"),
        arms=rows["fin"].to_numpy().astype(np.int64),
        rewards=np.where(arrested, 0.0, 1.0),
        propensities=np.full(arrested.size, 0.5),
        waits=np.where(arrested, weeks, float(YEAR)),  # at one a week
        durations=np.where(arrested, weeks, float(YEAR)),
    )


def _campaign(name: str) -> DataSet:
    files = {
        _open_bandit_path(name, policy): digest for policy, digest in zip(POLICIES, _OPEN_BANDIT[name], strict=True)
    }
    return DataSet("obp", "pip install --no-deps obp", files, lambda: read_open_bandit(name).log, None)


DATA: dict[str, DataSet] = {
    **{f"open-bandit-{name}": _campaign(name) for name in _OPEN_BANDIT},
    "actg175": DataSet("lifelines", "pip install --no-deps lifelines", dict([_ACTG175]), read_actg175, "day"),
    "rossi": DataSet("lifelines", "pip install --no-deps lifelines", dict([_ROSSI]), read_rossi, "week"),
}
"""Name -> what there is."""


def find_data(name: str) -> DataSet:
    """Return the set of public data of that name."""
    if name not in DATA:
        raise unknown("data", name, DATA)
    return DATA[name]


def missing(name: str) -> str | None:
    """Return why a set of public data cannot be read, in a sentence; None if its files are there."""
    data = find_data(name)
    folder = _folder(data.package)
    if folder is None or not all((folder / path).is_file() for path in data.files):
        return f"{name} needs the package {data.package}, which carries its data: {data.install}"
    return None


def _folder(package: str) -> Path | None:
    """Return the folder of an installed package, which is not imported: only its data are wanted."""
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


def _rows(name: str, path: str, columns: list[str]) -> Any:
    """Return columns of a file of public data, as a frame of polars, if it is the file that is known here."""
    data = find_data(name)
    folder = _folder(data.package)
    if (reason := missing(name)) is not None or folder is None:
        raise MissingData(reason)
    content = (folder / path).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != data.files[path]:
        raise MissingData(
            f"{path} of the package {data.package} is not the file that {name} stands for: its SHA-256 is {digest}, and"
            f" {data.files[path]} is needed"
        )
    with needs_extra("public data", "logs"):
        import polars
    return polars.read_csv(content, columns=columns, null_values="NA")
