"""What the CPU takes to issue work: measured, and what that does to step times.

    python benchmarks/host.py [FOLDER]

First the constants of `HostCosts` beside ``host_costs.csv`` (microbenchmarks, each with its source), then beside
profiler traces of training in FOLDER (default ../shared/inputs/kineto-traces): medians, per thread, of the time from
one launch to the next and of a launch itself, and of a collective call. Profiling adds to all of them, by 1 to 2 us a
launch and about as much for each operator event, so that traces are upper bounds. Then step times with and without the
CPU, and what it costs to simulate.
"""

import csv
import gzip
import json
import sys
import time
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.config.case import Case
from simgpu.engine import play
from simgpu.fold import fold
from simgpu.metrics.launches import launches
from simgpu.pricing import lower_case, op_prices
from simgpu.workload.host_costs import HostCosts
from simgpu.workload.software import PRESETS

HERE = Path(__file__).parent
TRACES = HERE.parent.parent / "shared" / "inputs" / "kineto-traces"
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "hipLaunchKernel", "hipExtModuleLaunchKernel")
BUSY_US = 200  # from one launch to the next; longer ones wait for data, a full queue or the GPU
FEWEST = 100  # launches of a thread that counts
SCENARIOS = {
    "GPT-2, 1 x H100, 128 tokens": ("gpt2", "dgx-h100", 1, 128, 1, {}),
    "GPT-2, 1 x H100, 1,024 tokens": ("gpt2", "dgx-h100", 1, 1024, 1, {}),
    "GPT-2 DDP, 8 x A100": ("gpt2", "dgx-a100", 8, 1024, 4, {"data_parallel": "ddp"}),
    "Llama-2-7B FSDP, 8 x H100": ("llama-2-7b", "dgx-h100", 8, 4096, 8, {"data_parallel": "fsdp"}),
    "Llama-2-7B tp 2 pp 2, 8 x A100": ("llama-2-7b", "dgx-a100", 8, 4096, 8, {"tp": 2, "pp": 2}),
}
SOFTWARE = {
    "eager": "eager",
    "eager, graphs": {"preset": "eager", "cuda_graphs": True},
    "flash": "flash",
    "compile": "compile",
    "flash, blocking": {"preset": "flash", "cuda_launch_blocking": True},
}
ROUNDS = 5


def constants() -> dict[str, float]:
    """Microseconds by quantity, as the presets have them."""
    host, compiled = HostCosts(), PRESETS["compile"].host
    return {
        "forward_op": host.forward_op_ns / 1e3,
        "backward_op": host.backward_op_ns / 1e3,
        "collective": host.collective_ns / 1e3,
        "launch": host.launch_ns / 1e3,
        "graph_node": host.graph_node_ns / 1e3,
        "compiled_op": compiled.forward_op_ns / 1e3,
    }


def published() -> list[dict[str, str]]:
    """Rows of ``host_costs.csv``."""
    with (HERE / "host_costs.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def traced(path: Path) -> dict[str, tuple[int, float]]:
    """Number and median in microseconds of what a trace shows, by quantity."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        content = json.load(file)
    events = content["traceEvents"] if isinstance(content, dict) else content
    timed = [event for event in events if event.get("ph") == "X" and "dur" in event]
    launched, found = defaultdict(list), defaultdict(list)
    backward = {event["tid"] for event in timed if "Backward" in event["name"]}
    for event in timed:
        kind = event.get("cat", "").lower()
        if kind in ("cuda_runtime", "runtime") and event["name"] in LAUNCHES:
            launched[event["tid"]].append(float(event["ts"]))
            found["launch"].append(float(event["dur"]))
        elif event["name"].startswith("c10d::"):
            found["collective"].append(float(event["dur"]))
    for thread, starts in launched.items():
        if len(starts) < FEWEST:
            continue
        starts.sort()
        gaps = [later - earlier for earlier, later in pairwise(starts)]
        quantity = "backward_op" if thread in backward else "forward_op"
        found[quantity] += [gap for gap in gaps if gap < BUSY_US]
    return {quantity: (len(times), median(times)) for quantity, times in found.items() if times}


def compare(folder: Path) -> None:
    taken = constants()
    print("microbenchmarks, us")
    for row in published():
        print(
            f"  {row['quantity']:12} measured {float(row['measured_us']):6.2f}  taken {taken[row['quantity']]:6.2f}"
            f"  {row['machine']:16} {row['source']}: {row['note']}"
        )
    names = ("forward_op", "backward_op", "launch", "collective")
    print(
        f"\nprofiled training, median us (number)\n{'taken':50} " + "".join(f"{taken[name]:>15.1f}" for name in names)
    )
    for path in sorted(folder.glob("*.json.gz")) if folder.is_dir() else ():
        found = traced(path)
        if "launch" in found:
            cells = (f"{found[name][1]:.1f} ({found[name][0]})" if name in found else "" for name in names)
            print(f"{path.name.removesuffix('.json.gz'):50} " + "".join(f"{cell:>15}" for cell in cells))
    print(f"{'':50} " + "".join(f"{name:>15}" for name in names) + "\n")


def load(software: object, model: str, topology: str, gpus: int, tokens: int, steps: int, parallel: dict) -> Case:
    (case,) = load_cases(
        {
            "name": "case",
            "model": model,
            "cluster": {"topology": topology, "gpus": gpus},
            "training": {"sequence_length": tokens, "micro_batch_size": 1, "gradient_accumulation": steps},
            "parallel": parallel,
            "software": software,
        }
    )
    return case


def without_host(case: Case) -> Case:
    free = replace(
        case.software.host, forward_op_ns=0, backward_op_ns=0, collective_ns=0, launch_ns=0, launch_blocking=False
    )
    return replace(case, software=replace(case.software, host=replace(free, cuda_graphs=False)))


def play_s(case: Case) -> float:
    program = fold(lower_case(case, op_prices(case)))
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        play(program)
        times.append(time.process_time() - begin)
    return min(times)


def main(folder: Path) -> None:
    compare(folder)
    columns = ("step ms", "no CPU ms", "ratio", "host", "kernels", "us each", "play ms", "no CPU")
    print(f"{'':32} {'software':15} " + " ".join(f"{name:>9}" for name in columns))
    for name, scenario in SCENARIOS.items():
        for label, software in SOFTWARE.items():
            case = load(software, *scenario)
            report, free = simulate(case), simulate(without_host(case))
            assert report.timeline is not None
            count = launches(report.timeline.program, 0)
            share = report.breakdown_ns["host"] / report.step_time_ns
            ratio = report.step_time_ns / free.step_time_ns
            print(
                f"{name:32} {label:15} {report.step_time_ns / 1e6:9.2f} {free.step_time_ns / 1e6:9.2f} {ratio:9.4f} "
                f"{share:9.1%} {count.kernels:9,} {count.each_ns / 1e3:9.1f} "
                f"{1e3 * play_s(case):9.1f} {1e3 * play_s(without_host(case)):9.1f}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TRACES)
