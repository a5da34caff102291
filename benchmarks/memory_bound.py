"""Predicted against measured times of memory-bound kernels, by device and pattern.

    python benchmarks/memory_bound.py

``memory_bound_times.csv`` beside this file holds times of single kernels, each with its source: residual adds that
follow a GEMM, of 0.2 to 200 MB, and layer norms and softmaxes of large fp32 tensors. The adds are durations from a
profiler, so the gap to the next kernel is taken off the prediction. Constants were fitted to the adds on A100 and H100
and to the norms and softmaxes of both devices together; the adds on A40 are held out.
"""

import csv
from collections import defaultdict
from pathlib import Path

from simgpu.costs.constants import device_constants
from simgpu.costs.memory_bound import memory_bound_ns
from simgpu.hardware.gpu import gpu
from simgpu.workload.op import MemoryBound

TABLE = Path(__file__).parent / "memory_bound_times.csv"
SIZES = ((0, "below 10 MB"), (10**7, "10 to 100 MB"), (10**8, "above 100 MB"))


def evaluate():
    """Errors by device, pattern and size."""
    errors = defaultdict(list)
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            device, size = gpu(row["gpu"]), int(row["bytes"])
            gap_ns = 1000 * float(device_constants("memory", device)["gap_us"])
            op = MemoryBound(name=row["op"], bytes=size, pattern=row["pattern"])
            predicted_ns = memory_bound_ns(op, device) - gap_ns
            span = next(name for least, name in reversed(SIZES) if size >= least)
            errors[row["gpu"], row["op"], span].append(predicted_ns / (1000 * float(row["time_us"])) - 1)
    return errors


def main():
    for key, found in evaluate().items():
        mape, bias = (100 * sum(values) / len(found) for values in (map(abs, found), found))
        print(f"{'  '.join(key):46} n {len(found):3}  MAPE {mape:5.1f} %  bias {bias:+6.1f} %")


if __name__ == "__main__":
    main()
