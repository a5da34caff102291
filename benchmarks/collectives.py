"""Predicted against measured times of collectives, for every healthy series of the tables of published measurements.

    python benchmarks/collectives.py [FOLDER]

FOLDER (default ../shared/truth) holds ``collectives.csv`` and ``collectives_intranode_aic.csv``. Errors are of times,
at 1 MiB and above: mean absolute (MAPE) and mean (bias, positive when predictions are too slow), in three groups. Which
series are healthy, and why others are not, stands in ``collective_series.csv`` beside this file.
"""

import csv
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from simgpu.config.collective_table import read_collective_table
from simgpu.metrics.collective_errors import PricedCollective, price_table

HERE = Path(__file__).parent
TABLES = ("collectives.csv", "collectives_intranode_aic.csv")
FROM_BYTES = 2**20
SAME_SOURCE, OTHER_SOURCE, CONSTRUCTED = (
    "fitted on the same source",
    "same system, other source",
    "constructor, fits withheld",
)
TARGETS = {SAME_SOURCE: 6, OTHER_SOURCE: 8, CONSTRUCTED: 14}
FITTED_SERIES = "aic_"  # the packaged rows of these systems were fitted on the tables that these series are part of
WORST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What `evaluate` found."""

    groups: dict[str, list[PricedCollective]]
    apart: list[PricedCollective]  # series that are not healthy, constructed
    status: dict[str, tuple[str, str]]  # series -> status and reason
    unlisted: set[str]  # series of the tables that collective_series.csv lacks
    skipped: Counter  # (series, reason) -> rows


def read_status():
    """Status and reason of every series."""
    with (HERE / "collective_series.csv").open(encoding="utf-8", newline="") as file:
        return {row["series"]: (row["status"], row["reason"]) for row in csv.DictReader(file)}


def evaluate(folder):
    """Price the tables of a folder, with measured rows and with all of them withheld."""
    status = read_status()
    groups = {SAME_SOURCE: [], OTHER_SOURCE: [], CONSTRUCTED: []}
    apart, skipped, seen = [], Counter(), set()
    for name in TABLES:
        table = read_collective_table(Path(folder) / name)
        usual = price_table(table.rows, table.skipped)
        skipped.update((each.id, each.reason) for each in usual.skipped)
        seen |= {one.measured.series for one in usual.priced} | {each.id for each in usual.skipped}
        withheld = price_table(table.rows, measured=False)
        for one in large(withheld.priced):
            (groups[CONSTRUCTED] if healthy(status, one) else apart).append(one)
        for one in large(usual.priced):
            if healthy(status, one) and one.source == "measured":
                same = one.measured.series.startswith(FITTED_SERIES)
                groups[SAME_SOURCE if same else OTHER_SOURCE].append(one)
    return Evaluation(groups=groups, apart=apart, status=status, unlisted=seen - set(status), skipped=skipped)


def large(priced):
    return [one for one in priced if one.measured.size_bytes >= FROM_BYTES]


def healthy(status, one):
    return status.get(one.measured.series, ("healthy",))[0] == "healthy"


def mape(rows):
    return 100 * sum(abs(one.error) for one in rows) / len(rows)


def bias(rows):
    return 100 * sum(one.error for one in rows) / len(rows)


def by_series(rows):
    found = defaultdict(list)
    for one in rows:
        found[one.measured.series].append(one)
    return found


def print_group(name, rows):
    print(f"\n{name} (target {TARGETS[name]} %)")
    for series, found in by_series(rows).items():
        algorithms = "/".join(dict.fromkeys(one.algorithm for one in found))
        print(f"  {series:38} n {len(found):3}  MAPE {mape(found):5.1f} %  bias {bias(found):+6.1f} %  {algorithms}")
    if rows:
        print(f"  {'ALL':38} n {len(rows):3}  MAPE {mape(rows):5.1f} %  bias {bias(rows):+6.1f} %")


def print_worst(name, rows):
    print(f"\nworst {WORST}, {name}")
    for one in sorted(rows, key=lambda one: -abs(one.error))[:WORST]:
        at = one.measured
        print(
            f"  {at.series:38} {at.size_bytes / 2**20:9.1f} MiB  measured {at.time_ns / 1e3:11.1f} us"
            f"  predicted {one.time_ns / 1e3:11.1f} us  {100 * one.error:+6.1f} %  {one.algorithm}"
        )


def main(folder):
    found = evaluate(folder)
    for name, rows in found.groups.items():
        print_group(name, rows)
    print("\nset apart")
    for series, rows in by_series(found.apart).items():
        ratio = 1 + bias(rows) / 100
        print(f"  {series:38} n {len(rows):3}  predicted/measured {ratio:4.2f}  {found.status[series][1]}")
    print("\nskipped")
    for (series, reason), rows in found.skipped.items():
        print(f"  {series:38} {rows:3} row{'s' if rows > 1 else ' '}  {reason}")
    if found.unlisted:
        print("\nnot in collective_series.csv, taken as healthy:", ", ".join(sorted(found.unlisted)))
    for name, rows in found.groups.items():
        print_worst(name, rows)
    print()
    for name, rows in found.groups.items():
        if rows:
            target = f"(target {TARGETS[name]})"
            print(f"{name:28} n {len(rows):4}  MAPE {mape(rows):5.1f} % {target}  bias {bias(rows):+5.1f} %")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else HERE.parent.parent / "shared" / "truth")
