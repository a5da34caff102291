"""Search against exhaustive simulation on three grids, and the time of 10,000 candidates of GPT-3 175B on 1,024 A100.

``python benchmarks/search.py [grids|gpt3|bound]``: ``grids`` simulates every point of three grids of 500 and more;
``gpt3`` searches the large one; ``bound`` only prices its candidates, without a simulation.
"""

import os
import sys
import time

from targets import verdict

from simgpu.config.search_space import load_search
from simgpu.executor.point import play_point, point_task
from simgpu.searches.candidates import list_candidates
from simgpu.searches.estimate import Estimator
from simgpu.searches.queue import BoundQueue
from simgpu.searches.run import run_search

GRIDS = {
    "8 layers of Llama-2-7B, 8 A100": {
        "model": {"base": "llama-2-7b", "layers": 8},
        "cluster": {"topology": "dgx-a100"},
        "training": {"sequence_length": 1024, "global_batch_size": 16},
        "search": {
            "tp": [1, 2, 4, 8],
            "pp": [1, 2, 4],
            "virtual_stages": [1, 2],
            "data_parallel": ["ddp", "zero1", "zero3", "fsdp", "distributed_optimizer"],
            "micro_batch_size": [1, 2],
            "recompute": ["none", "full"],
            "schedule": ["1f1b", "interleaved_1f1b", "zbh1", "zbv"],
        },
    },
    "8 layers of GPT-2 XL's width, two nodes with a NIC each": {
        "model": {"base": "gpt2-xl", "layers": 8, "heads": 20, "hidden": 1600},
        "cluster": {"topology": "8x-a100-single-nic", "nodes": 2},
        "training": {"sequence_length": 1024, "global_batch_size": 32},
        "search": {
            "tp": [1, 2, 4],
            "pp": [1, 2, 4],
            "virtual_stages": [1, 2],
            "data_parallel": ["ddp", "zero1", "fsdp", "distributed_optimizer"],
            "micro_batch_size": [1, 2],
            "recompute": ["none", "full"],
            "schedule": ["1f1b", "interleaved_1f1b", "zbh1", "zbv"],
        },
    },
    "4 layers of Llama-2-70B, 8 H100, 16k tokens": {
        "model": {"base": "llama-2-70b", "layers": 4},
        "cluster": {"topology": "dgx-h100"},
        "training": {"sequence_length": 16384, "global_batch_size": 8},
        "parallel": {"sequence_parallel": True},
        "search": {
            "tp": [1, 2, 4, 8],
            "pp": [1, 2, 4],
            "virtual_stages": [1, 2],
            "cp": [1, 2, 4],
            "data_parallel": ["zero1", "zero3", "fsdp", "distributed_optimizer"],
            "micro_batch_size": [1, 2],
            "recompute": ["none", "selective", "full"],
            "schedule": ["1f1b", "interleaved_1f1b", "zbv"],
        },
    },
}

GPT3 = {
    "model": "gpt3-175b",
    "cluster": {"topology": "dgx-a100", "nodes": 128},
    "training": {"sequence_length": 2048, "global_batch_size": 1536},
    "parallel": {"sequence_parallel": True},
}


class Watch:
    """Prints every simulation."""

    def begin(self, candidates):
        print(f"{candidates:,} candidates")

    def done(self, status, left):
        print(f"  {status}, up to {left:,} left", flush=True)

    def notice(self, text):
        print(text)


def grids():
    print(
        f"{'grid':58} {'points':>6} {'visited':>8} {'share':>6} {'search s':>9} {'all s':>7} same winner, bound sound"
    )
    for name, scenario in GRIDS.items():
        space = load_search(scenario)
        candidates = list_candidates(space)
        begin = time.process_time()
        found = run_search(space, jobs=1)
        searched = time.process_time() - begin
        queue = BoundQueue(candidates, Estimator(space), 1 << 62)
        for _ in queue:
            pass  # every bound as sharp as it gets
        begin = time.process_time()
        rows = [
            play_point(point_task(one.data(space), space.folder, fold=True, digests={}))["numbers"]
            for one in candidates
        ]
        whole = time.process_time() - begin
        best = min((row["step_time_ns"], place) for place, row in enumerate(rows) if row.get("fits"))
        same = best == (found.winner.step_time_ns, found.winner.index)
        sound = all(
            queue.bounds[place].step_ns <= row["step_time_ns"]
            and (queue.bounds[place].memory_bytes <= row["capacity_bytes"] or not row["fits"])
            for place, row in enumerate(rows)
            if row
        )
        share = found.simulated / len(candidates)
        counts = f"{len(candidates):6,} {found.simulated:8} {share:6.1%}"
        print(f"{name:58} {counts} {searched:9.1f} {whole:7.1f} {same}, {sound}", flush=True)
        holds = same and sound and len(candidates) >= 500 and share < 0.1
        print(f"{verdict(holds)} same winner as the exhaustive search, under 10 % of 500 or more points visited")


def large(*, only_bounds):
    begin = time.process_time()
    space = load_search(GPT3)
    candidates = list_candidates(space)
    queue = BoundQueue(candidates, Estimator(space), space.cluster.gpu(0).memory_bytes)
    print(f"{len(candidates):,} candidates bounded in {time.process_time() - begin:.1f} s of processor time")
    first = [next(queue) for _ in range(10)]
    print(f"the first ten at their sharpest after {time.process_time() - begin:.1f} s")
    for one in first:
        values = {axis: value for axis, value in candidates[one.place].values.items() if value is not None}
        print(f"  {one.step_ns / 1e9:.3f} s, {one.memory_bytes / 2**30:.1f} GiB, {one.reason}: {values}")
    if not only_bounds:
        begin, wall = _processor_s(), time.perf_counter()
        found = run_search(space, watch=Watch())
        print(found)
        taken = time.perf_counter() - wall
        print(f"{found.simulated} simulated, {taken:.1f} s, {_processor_s() - begin:.1f} s of processor time")
        print(f"{verdict(taken < 60 and len(candidates) >= 10_000)} 10,000 candidates in less than 60 s")


def _processor_s():
    """Of this process and of workers that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main():
    what = sys.argv[1] if len(sys.argv) > 1 else "grids"
    if what == "grids":
        grids()
    else:
        large(only_bounds=what == "bound")


if __name__ == "__main__":
    main()
