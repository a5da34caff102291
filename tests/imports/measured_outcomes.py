"""What becomes of real files of measurements: NCCL's logs, logs of training programs, profiler traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from simgpu.cli.trace import read_steps
from simgpu.config.traced_table import traced_table
from simgpu.io.kineto_ops import OpCalls
from simgpu.io.log_lines import log_lines
from simgpu.io.nccl_log import read_nccl_log
from simgpu.io.nvbandwidth import is_nvbandwidth, read_nvbandwidth
from simgpu.io.training_log import read_training_log

_UNITS: Final = {"step_s": "s a step", "samples_per_s": "samples/s", "tokens_per_s_per_gpu": "tokens/s of a GPU"}


def nccl(path: Path) -> tuple[str, str]:
    """Return measured times of collectives, the settings that a job's own log shows, or measured copies."""
    if is_nvbandwidth(log_lines(path)):
        rates = read_nvbandwidth(path)
        return "overrides", (
            f"copies to a GPU at {min(rates.to_gpu_gb_per_s):g} GB/s and to the host at "
            f"{min(rates.to_host_gb_per_s):g} GB/s, measured on {', '.join(rates.gpus)}"
        )
    log = read_nccl_log(path)
    tests = [
        f"{test.kind} on {test.ranks} ranks of {test.nodes} node{'s' * (test.nodes > 1)}, {len(test.times_us)} sizes"
        for test in log.tests
    ]
    if tests:
        return "overrides", "; ".join(tests)
    return "overrides", f"NCCL {log.version}, network {log.network}, channels via {', '.join(sorted(log.ways))}"


def training(path: Path) -> tuple[str, str]:
    """Return the figure of the step."""
    log = read_training_log(path)
    return "step log", f"{log.value:.6g} {_UNITS[log.quantity]}, median of {log.count} ({log.form})"


def trace(path: Path) -> tuple[str, str]:
    """Return how many shapes of ops a trace tells, and what it has for `simgpu trace` and `simgpu check`."""
    calls = OpCalls()
    found = read_steps([path], None, [calls]).ranks[0].trace
    table = traced_table([(found.device, calls.ops())])
    moved = sum(event.kind == "collective" for event in found.events)
    step = f"{len(found.events)} kernels and copies, {moved} of NCCL"
    if not table.rows:
        return "step", step
    return "op table", f"{len(table.rows)} shapes from {table.calls} calls; {step}"


READERS: Final[Mapping[str, Callable[[Path], tuple[str, str]]]] = {
    "nccl-logs": nccl,
    "training-logs": training,
    "kineto-traces": trace,
}
"""By folder."""
