"""A nightly export of an experiment to Parquet: each night a file with the events since the last.

    pip install httpx pyarrow
    30 2 * * *  BELATED_KEY=... python nightly_export.py button warehouse/button      # the key needs the role read

The files are named by the numbers of their first and last events, so the folder itself says where to go on. A file
appears when it is complete. `polars.scan_parquet("warehouse/button/*.parquet")` reads them all.
"""

import os
import sys
from pathlib import Path

import httpx
import pyarrow.parquet


def export(url: str, key: str, experiment: str, folder: Path) -> Path | None:
    """Write the events that no file in the folder has yet; return the new file, or None if there are no new events."""
    folder.mkdir(parents=True, exist_ok=True)
    after = max((int(file.stem.split("-")[1]) for file in folder.glob("*-*.parquet")), default=0)
    part = folder / "incomplete"
    with (
        httpx.stream(
            "GET",
            f"{url}/v1/experiments/{experiment}/ledger",
            params={"format": "parquet", "after": after},
            headers={"Authorization": f"Bearer {key}"},
            timeout=60.0,
        ) as answer,
        part.open("wb") as file,
    ):
        answer.raise_for_status()
        for piece in answer.iter_bytes():
            file.write(piece)
    numbers = pyarrow.parquet.read_table(part, columns=["number"])["number"].to_pylist()
    if not numbers:
        part.unlink()
        return None
    return part.rename(folder / f"{numbers[0]:012}-{numbers[-1]:012}.parquet")


def main(experiment: str, folder: str) -> None:
    url = os.environ.get("BELATED_URL", "http://127.0.0.1:8000")
    print(export(url, os.environ["BELATED_KEY"], experiment, Path(folder)) or "nothing new")


if __name__ == "__main__":
    main(*sys.argv[1:])
