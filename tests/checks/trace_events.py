"""Events of traces, as torch.profiler writes them."""

from typing import Any

from simgpu.metrics.trace_report import TraceReport


def kernel(name: str, start_us: int, end_us: int, **more: Any) -> dict[str, Any]:
    ids = {"stream": more.pop("stream", 7), "correlation": more.pop("correlation", 1), **more.pop("args", {})}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": start_us, "dur": end_us - start_us, "args": ids, **more}


def launch(start_us: int, correlation: int) -> dict[str, Any]:
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": start_us, "dur": 1}
    return {**call, "args": {"correlation": correlation}}


def breakdown(report: TraceReport) -> dict[str, int]:
    (step,) = report.ranks[0].steps
    return {name: value // 1000 for name, value in step.breakdown_ns.items() if value}
