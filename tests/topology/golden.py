"""The table of what each real file comes to, and the folder of the files, which is not part of the repository."""

import csv
from pathlib import Path

HERE = Path(__file__).parent
INPUTS = HERE.parents[2] / "shared" / "inputs"
GOLDEN = HERE / "golden.csv"


def rows() -> list[dict[str, str]]:
    with GOLDEN.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
