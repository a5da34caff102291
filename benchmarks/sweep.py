"""Sweeps: milliseconds per point, gain of a second process, cost of the journal; and what the what-ifs of a run cost.

``python benchmarks/sweep.py [POINTS]`` (1,000). Task time: from the first point that ends to the last, so that the
start of workers and the report are not in it. The points are an 8-GPU scenario: GPT-2, one node, 1 or 2 micro-batches.
"""

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from simgpu.api import simulate
from simgpu.config.load import load_scenario
from simgpu.config.sweep_grid import load_grid
from simgpu.executor import Journal
from simgpu.sweeps.run import run_grid
from simgpu.what_ifs import largest_gains

SCENARIOS = ("four_vs_eight", "pipeline_bubble", "tp_across_nodes", "zero_stages")


class Clock:
    """Notes when each point ends."""

    def __init__(self):
        self.ends = []

    def begin(self, known, unknown, stale):
        self.unknown = unknown

    def done(self, status):
        self.ends.append(time.perf_counter())

    def notice(self, text):
        print(text)


def grid(points):
    """A grid of 8-GPU points that all differ."""
    return load_grid(
        {
            "model": "gpt2",
            "cluster": {"topology": "dgx-a100"},
            "training": {"sequence_length": 1024, "micro_batch_size": 1},
            "sweep": {
                "parallel.data_parallel": ["ddp", "zero1"],
                "training.gradient_accumulation": [1, 2],
                "training.sequence_length": [256 + 4 * step for step in range(points // 4)],
            },
        }
    )


def main():
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    begin = time.perf_counter()
    asked = grid(points)
    print(f"{len(asked.points)} points read in {time.perf_counter() - begin:.3f} s")
    rates = {}
    for jobs in (1, 2):
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            run_grid(asked, jobs=jobs, journal=Path(folder) / "sweep.jsonl", watch=clock)
            whole = time.perf_counter() - begin
        rates[jobs] = (clock.ends[-1] - clock.ends[0]) / (len(clock.ends) - 1)
        gaps = sorted(1e3 * (after - before) for before, after in pairwise(clock.ends))
        print(
            f"{jobs} process(es): {1e3 * rates[jobs]:.2f} ms per point, median {gaps[len(gaps) // 2]:.2f}, "
            f"whole {whole:.2f} s"
        )
    print(f"two processes are {rates[1] / rates[2]:.2f} times as fast as one")
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "j.jsonl") as journal:
        row = {"status": "ok", "reason": "", "numbers": {f"number {n}": 1.0 / (n + 1) for n in range(30)}}
        begin = time.perf_counter()
        for number in range(200):
            journal.add(f"{number:064}", row)
        print(f"journal: {5 * (time.perf_counter() - begin):.2f} ms per result, on the disk")
    print(f"{'what-ifs of a run':34} {'run ms':>8} {'what-ifs ms':>12} {'shown':>6}")
    for name in SCENARIOS:
        for case in load_scenario(name).cases:
            begin = time.perf_counter()
            report = simulate(case)
            middle = time.perf_counter()
            found = largest_gains(case, report)
            end = time.perf_counter()
            run_ms, gains_ms = 1e3 * (middle - begin), 1e3 * (end - middle)
            print(f"{name + ': ' + case.name:34.34} {run_ms:8.0f} {gains_ms:12.0f} {len(found):6}")


if __name__ == "__main__":
    main()
