"""What a simulation costs: the engine as multiples of bare SimPy, fold, build, memory, and growth with the cluster.

One command, everything measured in one run: ``python benchmarks/engine.py``. Times are CPU seconds of one core. The
last lines say which targets hold.
"""

import gc
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import simpy
from targets import verdict

TRAINING = {"sequence_length": 8192, "micro_batch_size": 1, "gradient_accumulation": 16, "precision": "bf16"}
LLAMA = {
    "name": "Llama-3.1-405B",
    "model": "llama-3.1-405b",
    "cluster": {"topology": "dgx-h100"},
    "training": TRAINING,
    "software": "te",
}
OVERLAPPED = {"data_parallel": "distributed_optimizer", "sequence_parallel": True}
BUCKETS = {"overlap_grad_reduce": True, "overlap_param_gather": True}
LAYERS = [7] + [8] * 14 + [7]
GPUS = (8, 128, 1024, 4096, 16384)
PARTS = ("load", "build", "fold", "play", "report")
TIMEOUTS = 200_000
PROCESSES = 1000


def llama(gpus, *, overlap=True, microbatches=16):
    """405B on so many GPUs: tp 8, from 128 on pp 16, the rest data parallel."""
    pp = 16 if gpus >= 128 else 1
    dp = gpus // (8 * pp)
    return {
        **LLAMA,
        "training": {**TRAINING, "gradient_accumulation": microbatches},
        "cluster": {"topology": "dgx-h100", "nodes": gpus // 8, "gpus": gpus},
        "parallel": {"tp": 8, "pp": pp, "dp": dp}
        | ({"layers_per_stage": LAYERS} if pp > 1 else {})
        | ((OVERLAPPED if overlap else {"data_parallel": "ddp"}) if dp > 1 else {}),
        **({"distributed_optimizer": BUCKETS} if overlap and dp > 1 else {}),
        **({} if overlap or dp == 1 else {"ddp": {"bucket_cap_mb": 1_000_000}}),
    }


UNDISTURBED = "undisturbed: 128 GPUs, folded"
DISTURBED = "disturbed: 16,384 GPUs, folded"
UNFOLDED = "256 GPUs unfolded"
SLOW = "16,384 GPUs, folded, a slow GPU"
JITTER = "1,024 GPUs unfolded, jitter"
CASES = {
    UNDISTURBED: (llama(128, overlap=False), True),
    DISTURBED: (llama(16384), True),
    UNFOLDED: (llama(256), False),
    **{f"{gpus:,} GPUs, folded": (llama(gpus), True) for gpus in GPUS},
    SLOW: (llama(16384) | {"perturb": {"slow_ranks": {5: 1.2}}}, True),
    JITTER: (llama(1024) | {"perturb": {"jitter": 0.02, "seed": 1}}, False),
}
COMMANDS = (DISTURBED, SLOW)
LONGER = {
    UNDISTURBED: (llama(128, overlap=False, microbatches=64), True),
    DISTURBED: (llama(16384, microbatches=64), True),
    UNFOLDED: (llama(256, microbatches=32), False),
}
"""The cases whose kernels have a target, with more micro-batches."""


def bare_timeout_us():
    """CPU microseconds of one ``yield env.timeout`` with 1,000 processes."""

    def process(env):
        for number in range(TIMEOUTS // PROCESSES):
            yield env.timeout(1 + number % 3)

    env = simpy.Environment()
    for _ in range(PROCESSES):
        env.process(process(env))
    begin = time.process_time()
    env.run()
    return (time.process_time() - begin) / TIMEOUTS * 1e6


def kernels_of(program, steps):
    """Kernels and communication kernels that a play of so many steps simulates."""
    from simgpu.program import Collective, Compute, Recv, Send

    def count(role):
        items = [item for stream in role.streams.values() for item in stream]
        ran = sum(len(item.kernels) for item in items if isinstance(item, Compute))
        return ran + sum(isinstance(item, Collective | Send | Recv) for item in items)

    each = [count(role) for role in program.roles]
    return steps * sum(each[rank.role] for rank in program.ranks)


def measure(scenario, folded):
    """Times of one case, in a process of its own."""
    from simpy import Environment

    from simgpu.api import facts
    from simgpu.config import load_cases
    from simgpu.engine import play
    from simgpu.fold import fold
    from simgpu.lower.perturbation import perturbed
    from simgpu.metrics.summary import summarize
    from simgpu.pricing import lower_case, op_prices

    events = [0]
    step = Environment.step

    def counted(env):
        events[0] += 1
        step(env)

    clock = time.process_time
    begin = clock()
    (case,) = load_cases(scenario)
    loaded = clock()
    whole = perturbed(lower_case(case, op_prices(case)), case.perturbation)
    lowered = clock()
    program = fold(whole) if folded else whole
    partitioned = clock()
    gc.collect()
    ready = clock()
    timeline = play(program)
    played = clock()
    summarize(timeline, facts(case))
    end = clock()
    bare = bare_timeout_us()
    Environment.step = counted
    play(program)
    Environment.step = step
    return {
        "bare": bare,
        "load": loaded - begin,
        "build": lowered - loaded,
        "fold": partitioned - lowered,
        "play": played - ready,
        "report": end - played,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "classes": len(program.ranks),
        "kernels": kernels_of(program, len(timeline.step_ends_ns)),
        "events": events[0],
        "step": timeline.window_ns[1] - timeline.window_ns[0],
    }


def command(name):
    """CPU seconds and MB of ``simgpu run`` with its page, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "case.yaml"
        file.write_text(json.dumps(CASES[name][0]))  # JSON is YAML
        arguments = [sys.executable, "-m", "simgpu", "run", str(file), "--html", str(file.with_suffix(".html"))]
        subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"time": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss / 1024}


def main():
    found, commands, longer = {}, {}, {}
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        for name, case in CASES.items():
            found[name] = pool.submit(measure, *case).result()
            row = found[name]
            print(f"{name}: step {row['step'] / 1e9:.3f} s", flush=True)
        for name, case in LONGER.items():
            longer[name] = pool.submit(measure, *case).result()
        for name in COMMANDS:
            commands[name] = pool.submit(command, name).result()
    print()
    for name, row in longer.items():
        each = further_kernel_us(found[name], row)
        print(f"{name}: a kernel of a further micro-batch {each:.2f} us, {each / row['bare']:.2f} bare timeouts")
    head = ("timeout", "kernels", "us each", "x bare", "events", "us each", "x bare")
    print(f"\n{'':36}" + "".join(f" {word:>10}" for word in head))
    for name, row in found.items():
        kernel, event = (row["play"] / row[what] * 1e6 for what in ("kernels", "events"))
        print(
            f"{name:36} {row['bare']:10.2f} {row['kernels']:10,} {kernel:10.2f} {kernel / row['bare']:10.2f} "
            f"{row['events']:10,} {event:10.2f} {event / row['bare']:10.2f}"
        )
    print(f"\n{'':36}" + "".join(f" {part + ' s':>8}" for part in (*PARTS, "all")) + f" {'MB':>6} {'classes':>8}")
    for name, row in found.items():
        times = [row[part] for part in PARTS]
        each = "".join(f" {seconds:8.2f}" for seconds in (*times, sum(times)))
        print(f"{name:36}{each} {row['memory']:6.0f} {row['classes']:8}")
    print(f"\n{'whole command, with its page':36} {'s':>8} {'MB':>6}")
    for name, row in commands.items():
        print(f"{name:36} {row['time']:8.2f} {row['memory']:6.0f}")
    print()
    for text, value, most in targets(found, commands):
        print(f"{verdict(value < most)} {text}: {value:.2f}, target below {most:g}")


def further_kernel_us(row, longer):
    """Microseconds of each kernel that a longer step has more: what is left when a play has been set up."""
    return (longer["play"] - row["play"]) / (longer["kernels"] - row["kernels"]) * 1e6


def targets(found, commands):
    """Each target: what, the value measured, and its limit."""
    whole = {
        name: sum(row[part] for part in ("load", "build", "fold", "play", "report")) for name, row in found.items()
    }
    for name in (UNDISTURBED, DISTURBED, UNFOLDED):
        row = found[name]
        yield f"{name}, kernel in bare timeouts", row["play"] / row["kernels"] * 1e6 / row["bare"], 0.5
    small, large = (found[f"{gpus:,} GPUs, folded"]["play"] for gpus in (1024, 16384))
    yield "engine time from 1,024 to 16,384 GPUs, times", large / small, 1.2
    yield f"{DISTURBED}, in process, s", whole[DISTURBED], 1
    yield f"{DISTURBED}, whole command, s", commands[DISTURBED]["time"], 2
    yield f"{DISTURBED}, whole command, MB", commands[DISTURBED]["memory"], 500
    yield f"{SLOW}, whole command, s", commands[SLOW]["time"], 5
    yield f"{JITTER}, in process, s", whole[JITTER], 60


if __name__ == "__main__":
    main()
