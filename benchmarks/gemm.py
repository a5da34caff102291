"""Predicted against measured times of matrix products, by table, device and operation.

    python benchmarks/gemm.py [FOLDER] [--held-out]

FOLDER (default ../shared/truth) holds ``gemm_shapes_aic.csv``, ``gemm_tflops.csv``, ``op_efficiency_matmul.csv`` and
``op_efficiency_group_matmul.csv``. Errors are of times: mean absolute (MAPE) and mean (bias, positive when predictions
are too slow), for M >= 512. Each table is priced twice: at the matrix rate that its own machine holds, one number for
each device of a table, told from the table's long products where it is more than 4 % off the catalogue's
(`simgpu.costs.operating_point`), and at the catalogue's rate. Software: the first table is ai-dynamo/aiconfigurator's,
which names its inference engine and version elsewhere and not in these rows; DeepGEMM's rows are of April 2025 with
NVCC 12.8; the efficiency tables are MooreThreads/SimuMax's, through PyTorch and Transformer Engine, of no stated
version. Maxima over a search of shapes are set apart: no typical rate.

``--held-out`` fits everything the model has for a device, tiles included, from a start that knows nothing of it: once
on every other row of its table, priced on the rows between, and once on the other device with the same kernels, priced
with that one's tiles and latencies and this one's rate. Beside both stand the packaged constants.
"""

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from simgpu.config.op_table import read_op_table
from simgpu.costs.gemm import GemmConstants, Tile, gemm_constants, gemm_ns
from simgpu.costs.operating_point import at_rate, held_rate
from simgpu.dtypes import DType
from simgpu.metrics.mean_errors import mean_errors
from simgpu.metrics.op_errors import price_op_table
from simgpu.workload.op import Gemm, GroupedGemm

TABLES = ("gemm_shapes_aic.csv", "op_efficiency_matmul.csv", "op_efficiency_group_matmul.csv", "gemm_tflops.csv")
SMALLEST_M = 512
LARGE_M = 2048
TARGET, TARGET_LARGE, TARGET_BIAS = 7.5, 5, 3
LARGE_TARGETS = ("A100-SXM4-80GB", "H100-SXM5-80GB")
NOT_TYPICAL = "mamf"
OWN_RATES = ("M", "S")  # flags of rates that rest on operator measurements
TWINS = {
    "A100-SXM4-80GB": "A100-PCIe-80GB",
    "A100-PCIe-80GB": "A100-SXM4-80GB",
    "H100-SXM5-80GB": "B200-SXM-180GB",
    "B200-SXM-180GB": "H100-SXM5-80GB",
}  # the other device with kernels of the same kind, in another table or with another design
STEPS = (0.8, 0.9, 0.97, 1.03, 1.1, 1.25)
ROUNDS = 4
FIT_ROWS = 150  # of a table, evenly over it
WORST = 10


def rows_of(op):
    """M of a product, or of each group on average."""
    return op.rows // op.groups if isinstance(op, GroupedGemm) else op.m


def read(folder, rates):
    """Priced rows of all tables by table, groups by table, and what had to be skipped."""
    priced, skipped = {}, []
    for name in TABLES:
        table = read_op_table(Path(folder) / name)
        rows = [row for row in table.rows if rows_of(row.ops[0]) >= SMALLEST_M]
        found = price_op_table(rows, table.skipped, rates=rates)
        priced[name] = [one for one in found.priced if isinstance(one.measured.ops[0], Gemm | GroupedGemm)]
        skipped += found.skipped
    return priced, skipped


def typical(priced):
    """Rows that are no maxima over shapes."""
    return [one for rows in priced.values() for one in rows if not one.measured.id.startswith(NOT_TYPICAL)]


def errors(rows):
    n, mape, bias = mean_errors(rows)
    return f"n {n:5}  MAPE {100 * (mape or 0):5.1f} %  bias {100 * (bias or 0):+6.1f} %"


def print_groups(priced, catalogue):
    for name, rows in priced.items():
        groups = defaultdict(list)
        for one, plain in zip(rows, catalogue[name], strict=True):
            op, gpu = one.measured.ops[0], one.measured.gpu
            layout = op.layout + (" fp32 sum" if op.accumulate_bytes > 2 else "")
            best = " (maximum of shapes)" if one.measured.id.startswith(NOT_TYPICAL) else ""
            groups[f"{gpu.name} [{gpu.rate_flag}] {one.measured.group} {layout}{best}"].append((one, plain))
        print(f"\n{name}, M >= {SMALLEST_M}")
        for group, found in groups.items():
            own, plain = ([pair[side] for pair in found] for side in (0, 1))
            moved = any(one.time_ns != one.catalogue_ns for one in own)
            print(f"  {group:62} {errors(own)}" + (f"   catalogue: {errors(plain)}" if moved else ""))


def start(gpu):
    """Constants that know nothing of a device but its datasheet: alike tiles, no throttling, 2 us to start."""
    rates = {(tile.rows, tile.columns): tile.resident for tile in gemm_constants(gpu).tiles}
    tiles = tuple(Tile(rows=m, columns=n, resident=count, rate=1.0) for (m, n), count in rates.items())
    constants = GemmConstants(
        tiles=tiles, boost=1.0, spill=0.01, prologue_ns=2e3, launch_latency_ns=2e3, splitk_latency_ns=4e3
    )
    return at_rate(gpu, 0.8 * gpu.peak_tflops(DType.BF16)), constants


def changed(constants, name, step):
    """Change one constant, or the rate of the tiles of one area."""
    if isinstance(name, int):
        tiles = tuple(
            replace(tile, rate=tile.rate * step) if tile.rows * tile.columns == name else tile
            for tile in constants.tiles
        )
        return replace(constants, tiles=tiles)
    return replace(constants, **{name: getattr(constants, name) * step})


def fit(gpu, rows):
    """Fit the rate of a device, its latencies and its tiles by coordinate descent on the mean absolute error."""
    device, constants = start(gpu)
    rows = rows[:: max(1, len(rows) // FIT_ROWS)]

    def loss(device, constants):
        return sum(abs(gemm_ns(op, device, constants) / time_ns - 1) for op, time_ns in rows)

    lowest = loss(device, constants)
    areas = sorted({tile.rows * tile.columns for tile in constants.tiles})[:-1]  # the largest stays the unit
    names = ("rate", "boost", "spill", "prologue_ns", "launch_latency_ns", *areas)
    for _ in range(ROUNDS):
        for name in names:
            for step in STEPS:
                one = at_rate(device, device.gemm_tflops * step) if name == "rate" else device
                other = constants if name == "rate" else changed(constants, name, step)
                if (now := loss(one, other)) < lowest:
                    device, constants, lowest = one, other, now
    return device, constants


def summary(rows, device, constants=None):
    found = [gemm_ns(op, device, constants) / time_ns - 1 for op, time_ns in rows]
    return found, f"MAPE {100 * sum(map(abs, found)) / len(found):5.1f} %  bias {100 * sum(found) / len(found):+5.1f} %"


def rate(gpu, rows):
    held = held_rate(gpu, rows)
    return gpu if held is None else held.gpu


def print_held_out(priced):
    by_device = {}
    for name in TABLES[:2]:
        for one in priced[name]:
            by_device.setdefault((name, one.measured.gpu), []).append((one.measured.ops[0], one.measured.time_ns))
    whole = {}
    for (_, gpu), rows in by_device.items():
        if gpu.name not in whole:  # the first table of a device stands for it
            whole[gpu.name] = fit(gpu, rows)[1]
    print("\nheld out, fitted from nothing: on the rows between; with the other device's tiles and latencies; packaged")
    for (name, gpu), rows in by_device.items():
        between = []
        for half in (0, 1):
            device, constants = fit(gpu, rows[half::2])
            between += summary(rows[1 - half :: 2], device, constants)[0]
        n = len(between)
        print(
            f"  {name:26} {gpu.name:16}"
            f" rows between: MAPE {100 * sum(map(abs, between)) / n:5.1f} %  bias {100 * sum(between) / n:+5.1f} %"
            f"   from {TWINS[gpu.name]}: {summary(rows, rate(gpu, rows), whole[TWINS[gpu.name]])[1]}"
            f"   packaged: {summary(rows, rate(gpu, rows))[1]}"
        )


def print_summary(rows):
    for name in LARGE_TARGETS:
        large = [one for one in rows if one.measured.gpu.name == name and rows_of(one.measured.ops[0]) >= LARGE_M]
        print(
            f"  {name + f', M >= {LARGE_M}':34} {errors(large)}  (target {TARGET_LARGE} %, bias within {TARGET_BIAS} %)"
        )
    operator = [one for one in rows if one.measured.gpu.rate_flag in OWN_RATES]
    rest = [one for one in rows if one.measured.gpu.rate_flag not in OWN_RATES]
    print(
        f"  {f'all devices, M >= {SMALLEST_M}':34} {errors(operator)}  (target {TARGET} %, bias within {TARGET_BIAS} %)"
    )
    if rest:
        print(f"  {'on assumed rates':34} {errors(rest)}")


def main(folder, held_out):
    priced, skipped = read(folder, "machine")
    catalogue, _ = read(folder, "sustained")
    print_groups(priced, catalogue)
    print("\nskipped")
    for one in skipped:
        print(f"  {one.id:40} {one.rows:3} row{'s' if one.rows > 1 else ' '}  {one.reason}")
    rows = typical(priced)
    print(f"\nworst {WORST}")
    for one in sorted(rows, key=lambda one: -abs(one.error))[:WORST]:
        op = one.measured.ops[0]
        print(
            f"  {one.measured.gpu.name:16} {rows_of(op):6} x {op.n:6} x {op.k:6} {op.layout}"
            f"  measured {one.measured.time_ns / 1e3:9.1f} us  predicted {one.time_ns / 1e3:9.1f} us"
            f"  {100 * one.error:+6.1f} %"
        )
    if held_out:
        print_held_out(priced)
    print("\nat the rate that each table's machine holds")
    print_summary(rows)
    print("at the catalogue's rate")
    print_summary(typical(catalogue))


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--held-out"]
    main(arguments[0] if arguments else Path(__file__).parents[2] / "shared" / "truth", "--held-out" in sys.argv)
