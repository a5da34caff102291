"""What a row of the table of cases may ask of the runs of its scenario, each by the name of a variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simgpu import Report, collective
from simgpu.config.cluster_request import ClusterRequest, request_cluster
from simgpu.costs.transfers import point_to_point
from simgpu.units import GIB

TOPOLOGIES = Path(__file__).parent / "topologies"
STATES = ("weights", "gradients", "optimizer")


def quantities(runs: Mapping[str, Report]) -> dict[str, Callable[..., Any]]:
    """Return the quantities by name: functions of a variant's name, or of a topology."""

    def of(measure: Callable[..., Any]) -> Callable[..., Any]:
        return lambda name, *more: measure(runs[name], *more)

    return {
        "step_s": of(lambda run: run.step_time_s),
        "rate": of(lambda run: run.tokens_per_s),  # tokens/s of all GPUs, images/s of a vision model
        "rate_per_gpu": of(lambda run: run.tokens_per_s_per_gpu),
        "mfu": of(lambda run: run.mfu),
        "tflops": of(lambda run: run.mfu * run.peak_flops_used / 1e12),  # model FLOPs a GPU
        "part_s": of(lambda run, part: run.breakdown_ns[part] / 1e9),
        "bubble": of(lambda run: run.bubble_fraction),
        "overlap": of(lambda run: run.overlap_ratio),
        "fits": of(lambda run: run.fits),
        "peak_gib": of(lambda run: run.peak_memory_bytes / GIB),
        "fullness": of(lambda run: run.peak_memory_bytes / run.capacity_bytes),
        "states_gib": of(lambda run: sum(run.memory_by_category_bytes[name] for name in STATES) / GIB),
        "gpu_0_over_others": of(lambda run: run.ranks[0].peak_memory_bytes / run.ranks[1].peak_memory_bytes),
        "weights_of_last_stage": of(lambda run: run.ranks[-1].memory_at_peak_bytes["weights"] // 2),
        "weights_of_first_stage": of(lambda run: run.ranks[0].memory_at_peak_bytes["weights"] // 2),
        "host_gib": of(lambda run: run.host_memory.total_bytes / GIB),
        "loading_tb": of(lambda run: run.loading.every_rank_bytes / 1e12),
        "warned": of(lambda run, text: any(text in warning for warning in run.warnings)),
        "says": of(lambda run, text: text in run.verdict),
        "calls": of(_calls),
        "moved_gb": of(lambda run, axis: sum(t.bytes * t.count for t in _on_rank_0(run, axis)) / 1e9),
        "gathered_gb": of(
            lambda run, axis: sum(t.bytes * t.count for t in _on_rank_0(run, axis) if t.kind == "all_gather") / 1e9
        ),
        "transfer_ms": of(_transfer_ms),
        "last_bucket_s": of(lambda run: max(t.mean_ns for t in _on_rank_0(run, "dp")) / 1e9),
        "bottleneck": of(lambda run: max(run.transfers, key=lambda one: one.bytes).bottleneck),
        "warm_up": of(_warm_up),
        "all_reduce_ms": all_reduce_ms,
        "send_ms": send_ms,
    }


def all_reduce_ms(topology: str, size_bytes: float, **where: Any) -> float:
    """Duration of one all-reduce on a topology of this folder."""
    (row,) = collective(
        "all_reduce", topology=str(TOPOLOGIES / f"{topology}.yaml"), sizes=[int(size_bytes)], **where
    ).rows
    return row.time_ns / 1e6


def send_ms(topology: str, size_bytes: int) -> float:
    """Duration of one message from a node to another."""
    cluster = request_cluster(ClusterRequest(topology=str(TOPOLOGIES / f"{topology}.yaml"), nodes=2))
    cost = point_to_point(cluster, 0, cluster.world_size // 2, size_bytes)
    return (cost.latency_ns + cost.stream_ns) / 1e6


def _on_rank_0(run: Report, axis: str) -> list[Any]:
    return [one for one in run.transfers if one.rank == 0 and one.axis == axis]


def _calls(run: Report, word: str) -> int:
    """Transfers on rank 0 whose names start with a word."""
    return sum(bar.kind == "transfer" and bar.name.startswith(word) for bar in run.ranks[0].bars)


def _transfer_ms(run: Report, axis: str, size_bytes: int) -> float:
    (one,) = (one for one in _on_rank_0(run, axis) if one.bytes == size_bytes)
    return one.mean_ns / 1e6


def _warm_up(run: Report, rank: int) -> int:
    """Forwards of a pipeline rank before those that alternate with backwards: the first backward has one more."""
    (bars,) = (one.bars for one in run.ranks if one.rank == rank)
    phases = [bar.phase for bar in bars if bar.kind == "compute" and bar.phase in {"forward", "backward"}]
    return phases.index("backward") - 1
