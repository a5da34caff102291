"""When the CPU holds the GPU up: step times with and without it, and what it costs to simulate."""

import time
from dataclasses import replace

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.config.case import Case
from simgpu.engine import play
from simgpu.fold import fold
from simgpu.metrics.launches import launches
from simgpu.pricing import lower_case, op_prices

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
    free = replace(case.software.host, forward_op_ns=0, backward_op_ns=0, launch_ns=0, launch_blocking=False)
    return replace(case, software=replace(case.software, host=replace(free, cuda_graphs=False)))


def play_s(case: Case) -> float:
    program = fold(lower_case(case, op_prices(case)))
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        play(program)
        times.append(time.process_time() - begin)
    return min(times)


def main() -> None:
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
    main()
