"""Predicted against measured times of matrix products, by table, device and operation.

    python benchmarks/gemm.py [FOLDER] [--held-out]

FOLDER (default ../shared/truth) holds ``gemm_shapes_aic.csv``, ``gemm_tflops.csv``, ``op_efficiency_matmul.csv`` and
``op_efficiency_group_matmul.csv``. Errors are of times: mean absolute (MAPE) and mean (bias, positive when predictions
are too slow), for M >= 512. Every row is priced at three matrix rates:

machine
    what the table's own long products hold, one number for each device of a table, as anybody has who prices his own
    table (`simgpu.costs.operating_point.held_rate`). Tiles, waves and latencies are the device's.
condition
    what the published circumstances of the measurement imply, ``gemm_conditions.csv`` beside this file:
    ``sustained`` is the catalogue's rate, ``unthrottled`` the clock's (0.97 of the datasheet), where operands draw too
    little power to throttle it, ``published machine`` what ``simgpu/data/operating_points.csv`` says. Two of them are
    told by the table's own rate in the end, A100's collector and B200's machine.
catalogue
    the sustained rate of ``simgpu/data/gpus.csv``, whatever was measured.

The last lines hold all three against the targets. Rows on rates that are assumed or derived from step times, and maxima
over a search of shapes, stand apart: no typical rate. A maximum is bracketed by the sustained and the unthrottled rate.
Software: the first table is ai-dynamo/aiconfigurator's, which names its inference engine and version elsewhere and not
in these rows; DeepGEMM's rows are of April 2025 with NVCC 12.8; the efficiency tables are MooreThreads/SimuMax's,
through PyTorch and Transformer Engine, of no stated version.

``--held-out`` fits everything the model has for a device, tiles included, from a start that knows nothing of it: once
on every other row of its table, priced on the rows between, and once on the other device with the same kernels, priced
with that one's tiles and latencies and this one's rate. Beside both stand the packaged constants.
"""

import csv
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from targets import bounded, percent, verdict

from simgpu.config.op_table import read_op_table
from simgpu.costs.gemm import BEST_OF_PEAK, GemmConstants, Tile, gemm_constants, gemm_ns
from simgpu.costs.grouped_gemm import grouped_gemm_ns
from simgpu.costs.operating_point import at_rate, held_rate, operating_point
from simgpu.dtypes import DType
from simgpu.metrics.mean_errors import mean_errors
from simgpu.metrics.op_errors import MeasuredOps, price_op_table
from simgpu.workload.op import Gemm, GroupedGemm

HERE = Path(__file__).parent
TABLES = ("gemm_shapes_aic.csv", "op_efficiency_matmul.csv", "op_efficiency_group_matmul.csv", "gemm_tflops.csv")
RATES = ("machine", "condition", "catalogue")
SMALLEST_M = 512
LARGE_M = 2048
TARGET, TARGET_LARGE, TARGET_BIAS = 7.5, 5, 3
LARGE_TARGETS = ("A100-SXM4-80GB", "H100-SXM5-80GB")
NOT_TYPICAL = "mamf"
OWN_RATES = ("M", "S")  # flags of rates that rest on operator measurements
PUBLISHED_MACHINE = "MooreThreads/SimuMax"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured product, the table it is in, and its time at one of the rates."""

    table: str
    measured: MeasuredOps
    time_ns: float

    @property
    def op(self):
        return self.measured.ops[0]

    @property
    def error(self):
        return self.time_ns / self.measured.time_ns - 1

    @property
    def typical(self):
        return not self.measured.id.startswith(NOT_TYPICAL)


def rows_of(op):
    """M of a product, or of each group on average."""
    return op.rows // op.groups if isinstance(op, GroupedGemm) else op.m


def time_ns(op, gpu):
    return grouped_gemm_ns(op, gpu) if isinstance(op, GroupedGemm) else gemm_ns(op, gpu)


def unthrottled(gpu):
    """The device whose clock no power limit lowers, which holds what its best kernel reaches of the datasheet."""
    share = BEST_OF_PEAK * gpu.peak_tflops(DType.BF16) / gpu.gemm_tflops
    fp8 = None if gpu.fp8_tflops is None else BEST_OF_PEAK * gpu.fp8_tflops
    return replace(at_rate(gpu, share * gpu.gemm_tflops), fp8_gemm_tflops=fp8)


def conditions():
    """What ``gemm_conditions.csv`` says, by table and device."""
    with (HERE / "gemm_conditions.csv").open(encoding="utf-8", newline="") as file:
        return {(row["table"], row["gpu"]): row["condition"] for row in csv.DictReader(file)}


def under(condition, gpu):
    """The device under a condition; the catalogue's without one."""
    if condition == "unthrottled":
        return unthrottled(gpu)
    return operating_point(gpu, PUBLISHED_MACHINE) if condition == "published machine" else gpu


def read(folder):
    """Products of all tables, priced at each of `RATES`, and what had to be skipped."""
    said = conditions()
    priced, skipped = {rate: [] for rate in RATES}, []
    for table in TABLES:
        content = read_op_table(Path(folder) / table)
        usable = [row for row in content.rows if rows_of(row.ops[0]) >= SMALLEST_M]
        found = price_op_table(usable, content.skipped, rates="sustained")
        skipped += found.skipped
        by_gpu = defaultdict(list)
        for one in found.priced:
            if isinstance(one.measured.ops[0], Gemm | GroupedGemm):
                by_gpu[one.measured.gpu].append(one.measured)
        for gpu, rows in by_gpu.items():
            held = held_rate(gpu, [(row.ops[0], row.time_ns) for row in rows], spread=0)
            devices = (gpu if held is None else held.gpu, under(said.get((table, gpu.name)), gpu), gpu)
            for rate, device in zip(RATES, devices, strict=True):
                priced[rate] += [Row(table=table, measured=row, time_ns=time_ns(row.ops[0], device)) for row in rows]
    return priced, skipped


def errors(rows):
    n, mape, bias = mean_errors(rows)
    return f"n {n:5}  MAPE {100 * (mape or 0):5.1f} %  bias {100 * (bias or 0):+6.1f} %"


def print_groups(priced):
    groups = {rate: defaultdict(list) for rate in RATES}
    for rate, rows in priced.items():
        for row in rows:
            layout = row.op.layout + (" fp32 sum" if row.op.accumulate_bytes > 2 else "")
            best = "" if row.typical else " (maximum of shapes)"
            device = f"{row.measured.gpu.name} [{row.measured.gpu.rate_flag}]"
            groups[rate][row.table, f"{device} {row.measured.group} {layout}{best}"].append(row)
    shown = None
    for table, group in groups["machine"]:
        if table != shown:
            print(f"\n{table}, M >= {SMALLEST_M}")
            shown = table
        own, condition, plain = (errors(groups[rate][table, group]) for rate in RATES)
        moved = [f"   {rate}: {said}" for rate, said in (("condition", condition), ("catalogue", plain)) if said != own]
        print(f"  {group:62} {own}" + "".join(moved))


def start(gpu):
    """Constants that know nothing of a device but its datasheet: alike tiles, no throttling, 2 us to start."""
    rates = {(tile.rows, tile.columns): tile.resident for tile in gemm_constants(gpu).tiles}
    tiles = tuple(Tile(rows=m, columns=n, resident=count, rate=1.0) for (m, n), count in rates.items())
    constants = GemmConstants(
        tiles=tiles, boost=1.0, spill=0.01, prologue_ns=2e3, launch_latency_ns=2e3, splitk_latency_ns=4e3
    )
    return replace(gpu, gemm_tflops=0.8 * gpu.peak_tflops(DType.BF16)), constants


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
                one = replace(device, gemm_tflops=device.gemm_tflops * step) if name == "rate" else device
                other = constants if name == "rate" else changed(constants, name, step)
                if (now := loss(one, other)) < lowest:
                    device, constants, lowest = one, other, now
    return device, constants


def summary(rows, device, constants=None):
    found = [gemm_ns(op, device, constants) / time_ns - 1 for op, time_ns in rows]
    return found, f"MAPE {100 * sum(map(abs, found)) / len(found):5.1f} %  bias {100 * sum(found) / len(found):+5.1f} %"


def rate(gpu, rows):
    held = held_rate(gpu, rows, spread=0)
    return gpu if held is None else held.gpu


def print_held_out(rows):
    by_device = defaultdict(list)
    for row in rows:
        if row.table in TABLES[:2]:
            by_device[row.table, row.measured.gpu].append((row.op, row.measured.time_ns))
    whole = {}
    for (_, gpu), own in by_device.items():
        if gpu.name not in whole:  # the first table of a device stands for it
            whole[gpu.name] = fit(gpu, own)[1]
    print("\nheld out, fitted from nothing: on the rows between; with the other device's tiles and latencies; packaged")
    for (name, gpu), own in by_device.items():
        between = []
        for half in (0, 1):
            device, constants = fit(gpu, own[half::2])
            between += summary(own[1 - half :: 2], device, constants)[0]
        n = len(between)
        print(
            f"  {name:26} {gpu.name:16}"
            f" rows between: MAPE {100 * sum(map(abs, between)) / n:5.1f} %  bias {100 * sum(between) / n:+5.1f} %"
            f"   from {TWINS[gpu.name]}: {summary(own, rate(gpu, own), whole[TWINS[gpu.name]])[1]}"
            f"   packaged: {summary(own, rate(gpu, own))[1]}"
        )


def print_maxima(rows):
    print("\nmaxima over a search of shapes: in bursts too short for the power limit, so between both rates")
    for row in rows:
        if row.typical:
            continue
        slow, fast = (time_ns(row.op, device) for device in (row.measured.gpu, unthrottled(row.measured.gpu)))
        rates = [row.op.flops / time / 1e3 for time in (slow, row.measured.time_ns, fast)]
        within = 0.97 * rates[0] <= rates[1] <= rates[2]
        said = "sustained {:6.0f}  measured {:6.0f}  unthrottled {:6.0f} TFLOP/s".format(*rates)
        print(f"  {verdict(within)}  {row.measured.id:18} {row.measured.gpu.name:16} {said}")


def print_targets(priced):
    typical = {rate: [row for row in rows if row.typical] for rate, rows in priced.items()}
    sound = {r: [row for row in rows if row.measured.gpu.rate_flag in OWN_RATES] for r, rows in typical.items()}
    names = list(dict.fromkeys(row.measured.gpu.name for row in sound["machine"]))
    print(f"\n{'MAPE and bias, %':34} {'n':>5}" + "".join(f"{rate:>16}" for rate in RATES))

    def line(label, chosen):
        cells, n = [], 0
        for found in RATES:
            n, mape, bias = mean_errors([row for row in sound[found] if chosen(row)])
            cells.append(f"{100 * (mape or 0):8.1f}{percent(bias):>8}")
        print(f"{label:34} {n:5}" + "".join(cells))

    for table, name in dict.fromkeys((row.table, row.measured.gpu.name) for row in sound["machine"]):
        line(
            f"{name} {table.removesuffix('.csv').removeprefix('op_efficiency_')}"[:34],
            lambda row, table=table, name=name: row.table == table and row.measured.gpu.name == name,
        )
    for name in names:
        line(f"{name}, all tables", lambda row, name=name: row.measured.gpu.name == name)
    line("all", lambda row: True)

    print(f"\n{'target':52}" + "".join(f"{rate:>12}" for rate in RATES))

    def target(label, chosen, **limits):
        words = [verdict(bounded([row for row in sound[found] if chosen(row)], **limits)) for found in RATES]
        print(f"{label:52}" + "".join(f"{word:>12}" for word in words))

    for name in LARGE_TARGETS:

        def large(row, name=name):
            return row.measured.gpu.name == name and rows_of(row.op) >= LARGE_M

        target(f"{name}, M >= {LARGE_M}: MAPE <= {TARGET_LARGE} %", large, mape=TARGET_LARGE / 100)
    target(f"all devices, M >= {SMALLEST_M}: MAPE <= {TARGET} %", lambda row: True, mape=TARGET / 100)
    target(f"all devices: bias within {TARGET_BIAS} %", lambda row: True, bias=TARGET_BIAS / 100)
    for name in names:
        label = f"{name}: bias within {TARGET_BIAS} %"
        target(label, lambda row, name=name: row.measured.gpu.name == name, bias=TARGET_BIAS / 100)
    rest = [row for row in typical["machine"] if row.measured.gpu.rate_flag not in OWN_RATES]
    print(f"on assumed rates: {errors(rest)}" if rest else "no typical row rests on an assumed rate")


def main(folder, held_out):
    priced, skipped = read(folder)
    print_groups(priced)
    print("\nskipped")
    for one in skipped:
        print(f"  {one.id:40} {one.rows:3} row{'s' if one.rows > 1 else ' '}  {one.reason}")
    typical = [row for row in priced["machine"] if row.typical]
    print(f"\nworst {WORST}")
    for row in sorted(typical, key=lambda row: -abs(row.error))[:WORST]:
        op = row.op
        print(
            f"  {row.measured.gpu.name:16} {rows_of(op):6} x {op.n:6} x {op.k:6} {op.layout}"
            f"  measured {row.measured.time_ns / 1e3:9.1f} us  predicted {row.time_ns / 1e3:9.1f} us"
            f"  {100 * row.error:+6.1f} %"
        )
    if held_out:
        print_held_out(priced["machine"])
    print_maxima(priced["catalogue"])
    print_targets(priced)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--held-out"]
    main(arguments[0] if arguments else Path(__file__).parents[2] / "shared" / "truth", "--held-out" in sys.argv)
