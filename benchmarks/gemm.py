"""Predicted against measured times of matrix products, by table, device and operation.

    python benchmarks/gemm.py [FOLDER] [--held-out]

FOLDER (default ../shared/truth) holds ``gemm_shapes_aic.csv``, ``gemm_tflops.csv``, ``op_efficiency_matmul.csv`` and
``op_efficiency_group_matmul.csv``. Errors are of times: mean absolute (MAPE) and mean (bias, positive when predictions
are too slow), for M >= 512. Software: the first table is ai-dynamo/aiconfigurator's, which names its inference engine
and version elsewhere and not in these rows; DeepGEMM's rows are of April 2025 with NVCC 12.8; the efficiency tables are
MooreThreads/SimuMax's, through PyTorch and Transformer Engine, of no stated version. Maxima over a search of shapes are
set apart: no typical rate.

``--held-out`` fits the rate and the latencies of each device anew on every other row of its table, and prints the
errors on the rows between them beside those of the packaged constants: what a fit owes to having seen a row.
"""

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from simgpu.config.op_table import read_op_table
from simgpu.costs.compute import price
from simgpu.costs.gemm import gemm_constants, gemm_ns
from simgpu.hardware.gpu import gpu as gpu_of
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
STEPS = (0.9, 0.95, 0.98, 1.02, 1.05, 1.1)
ROUNDS = 4
WORST = 10


def rows_of(op):
    """M of a product, or of each group on average."""
    return op.rows // op.groups if isinstance(op, GroupedGemm) else op.m


def read(folder):
    """Priced rows of all tables by table, and what had to be skipped."""
    priced, skipped = {}, []
    for name in TABLES:
        table = read_op_table(Path(folder) / name)
        found = price_op_table(table.rows, table.skipped)
        priced[name] = [one for one in found.priced if isinstance(one.measured.ops[0], Gemm | GroupedGemm)]
        skipped += found.skipped
    return priced, skipped


def typical(priced):
    """Rows of M >= 512 that are no maxima over shapes."""
    return [
        one
        for rows in priced.values()
        for one in rows
        if rows_of(one.measured.ops[0]) >= SMALLEST_M and not one.measured.id.startswith(NOT_TYPICAL)
    ]


def errors(rows):
    n, mape, bias = mean_errors(rows)
    return f"n {n:5}  MAPE {100 * (mape or 0):5.1f} %  bias {100 * (bias or 0):+6.1f} %"


def print_groups(priced):
    for name, rows in priced.items():
        groups = defaultdict(list)
        for one in rows:
            if rows_of(one.measured.ops[0]) >= SMALLEST_M:
                layout = one.measured.ops[0].layout + (" fp32 sum" if one.measured.ops[0].accumulate_bytes > 2 else "")
                best = " (maximum of shapes)" if one.measured.id.startswith(NOT_TYPICAL) else ""
                gpu = one.measured.gpu
                groups[f"{gpu.name} [{gpu.rate_flag}] {one.measured.group} {layout}{best}"].append(one)
        print(f"\n{name}, M >= {SMALLEST_M}")
        for group, found in groups.items():
            print(f"  {group:62} {errors(found)}")


def fit(gpu, rows):
    """Fit F, boost, prologue and launch of a device to measured rows by coordinate descent on the mean error."""
    best = (gpu, gemm_constants(gpu))

    def loss(candidate):
        return sum(abs(gemm_ns(op, *candidate) / time_ns - 1) for op, time_ns in rows)

    lowest = loss(best)
    for _ in range(ROUNDS):
        for name in ("gemm_tflops", "boost", "prologue_ns", "launch_latency_ns"):
            for step in STEPS:
                device, constants = best
                if name == "gemm_tflops":
                    candidate = (replace(device, gemm_tflops=device.gemm_tflops * step), constants)
                else:
                    candidate = (device, replace(constants, **{name: getattr(constants, name) * step}))
                if (now := loss(candidate)) < lowest:
                    best, lowest = candidate, now
    return best


def print_held_out(priced):
    print("\nheld out: fitted on every other row, errors on the rows between")
    for name in TABLES[:2]:
        by_gpu = defaultdict(list)
        for one in priced[name]:
            by_gpu[one.measured.gpu].append((one.measured.ops[0], one.measured.time_ns))
        for gpu, rows in by_gpu.items():
            found, packaged = [], []
            for half in (0, 1):
                fitted = fit(gpu, rows[half::2])
                for op, time_ns in rows[1 - half :: 2]:
                    found.append(gemm_ns(op, *fitted) / time_ns - 1)
                    packaged.append(gemm_ns(op, gpu) / time_ns - 1)
            n = len(found)
            print(
                f"  {name:28} {gpu.name:16} held out: MAPE {100 * sum(map(abs, found)) / n:5.1f} %"
                f"  bias {100 * sum(found) / n:+5.1f} %   packaged: MAPE {100 * sum(map(abs, packaged)) / n:5.1f} %"
                f"  bias {100 * sum(packaged) / n:+5.1f} %"
            )


def print_catalogue(rows):
    """Price rows of machines with an operating point of their own at the rate that any other of the kind gets."""
    print("\nat the catalogue's rate instead of the source machine's own (simgpu/data/operating_points.csv)")
    groups = defaultdict(list)
    for one in rows:
        device = gpu_of(one.measured.gpu.name)
        if device.gemm_tflops != one.measured.gpu.gemm_tflops:
            time_ns = sum(price(op, device) for op in one.measured.ops)
            change = f"{one.measured.gpu.gemm_tflops:.0f} -> {device.gemm_tflops:.0f} TFLOP/s"
            groups[f"{device.name}, {change}"].append(time_ns / one.measured.time_ns - 1)
    for name, found in groups.items():
        n = len(found)
        print(f"  {name:42} n {n:5}  MAPE {100 * sum(map(abs, found)) / n:5.1f} %  bias {100 * sum(found) / n:+6.1f} %")


def main(folder, held_out):
    priced, skipped = read(folder)
    print_groups(priced)
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
    print()
    for name in LARGE_TARGETS:
        large = [one for one in rows if one.measured.gpu.name == name and rows_of(one.measured.ops[0]) >= LARGE_M]
        print(
            f"{name + f', M >= {LARGE_M}':34} {errors(large)}  (target {TARGET_LARGE} %, bias within {TARGET_BIAS} %)"
        )
    operator = [one for one in rows if one.measured.gpu.rate_flag in OWN_RATES]
    rest = [one for one in rows if one.measured.gpu.rate_flag not in OWN_RATES]
    print(
        f"{f'all devices, M >= {SMALLEST_M}':34} {errors(operator)}  (target {TARGET} %, bias within {TARGET_BIAS} %)"
    )
    print(f"{'on assumed rates':34} {errors(rest)}")
    print_catalogue(rows)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--held-out"]
    main(arguments[0] if arguments else Path(__file__).parents[2] / "shared" / "truth", "--held-out" in sys.argv)
