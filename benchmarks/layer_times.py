"""Predicted against measured times of transformer layers.

    python benchmarks/layer_times.py [FOLDER]

FOLDER (default ../shared/truth) holds ``layer_times.csv``. The 22B rows (arXiv 2205.05198, table 4) are one layer on
eight A100 with tensor parallelism; it is played in the middle of three, with its communication and what that takes from
the kernels beside it (`simgpu.pricing.layers`, as in ``simgpu ops --table``). Rows on a device that is not named are
skipped.
"""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from targets import verdict

from simgpu.metrics.mean_errors import mean_errors
from simgpu.pricing import op_table

TARGET = 3


def evaluate(folder):
    """Rows of the layers whose device is named: forward, backward and, where both were measured, their sum."""
    by_id = {}
    found = op_table(Path(folder) / "layer_times.csv")
    for row in found.priced:
        phase = row.measured.group.removeprefix("layer.")
        by_id.setdefault(row.measured.id, {})[phase] = (row.measured.time_ns, row.time_ns)
    rows = []
    for name, phases in by_id.items():
        if len(phases) > 1:
            phases["both"] = tuple(map(sum, zip(*phases.values(), strict=True)))
        rows += [
            SimpleNamespace(
                id=name, phase=phase, measured_ns=measured, predicted_ns=predicted, error=predicted / measured - 1
            )
            for phase, (measured, predicted) in phases.items()
        ]
    return rows, found.skipped


def main(folder):
    rows, skipped = evaluate(folder)
    for row in rows:
        print(
            f"{row.id:16} {row.phase:9} measured {row.measured_ns / 1e6:6.2f} ms"
            f"  predicted {row.predicted_ns / 1e6:6.2f} ms  {100 * row.error:+5.1f} %"
        )
    for reason, count in Counter(one.reason for one in skipped).items():
        print(f"skipped: {count} rows, {reason}")
    n, mape, bias = mean_errors(rows)
    largest = max(abs(row.error) for row in rows)
    print(
        f"\n{verdict(100 * largest <= TARGET)}  22B layer, every row within {TARGET} %: n {n}  MAPE {100 * mape:.1f} %"
        f"  bias {100 * bias:+.1f} %  largest {100 * largest:.1f} %"
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared" / "truth")
