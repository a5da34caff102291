"""Timeline to Report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simgpu.metrics.accounting import rank_bars
from simgpu.metrics.activity import CLASSES, LazyBars
from simgpu.metrics.communication import transfer_reports
from simgpu.metrics.facts import RunFacts
from simgpu.metrics.host_memory import HostMemory, describe_overfull_host, host_memory
from simgpu.metrics.memory import allowances, describe_nearly_full, memory_use
from simgpu.metrics.report import RankReport, Report
from simgpu.metrics.step_sums import StepSums, step_sums
from simgpu.timeline import Timeline


def summarize(timeline: Timeline, facts: RunFacts) -> Report:
    """Compute every number of a run; the verdict is left empty.

    Notes
    -----
    Means over ranks weigh each class of alike ranks with its size. ``bubble_fraction`` is bubble / step,
    ``bubble_over_ideal`` bubble / compute (Megatron's (p-1)/m for an ideal pipeline), ``overlap_ratio`` the share of
    communication time under which kernels ran (as Holistic Trace Analysis counts it). MFU is
    model FLOPs / (step x GPUs x peak).
    """
    sums = step_sums(timeline)
    ranks = tuple(_rank_report(timeline, sums, index) for index in range(len(timeline.program.ranks)))
    begin, end = timeline.window_ns
    step_ns = end - begin
    gpus = timeline.program.world_size
    mean = {name: sum(rank.count * rank.breakdown_ns[name] for rank in ranks) / gpus for name in CLASSES}
    compute_ns = sum(value for name, value in mean.items() if name.startswith("compute."))
    seconds = step_ns / 1e9
    tokens_per_s = facts.tokens / seconds if seconds else 0.0
    peak = max(ranks, key=lambda rank: rank.peak_memory_bytes / rank.capacity_bytes)
    available = facts.peak_flops_per_s * gpus * seconds
    fits = all(rank.peak_memory_bytes <= rank.capacity_bytes for rank in ranks)
    host = host_memory(timeline.program, facts.ranks_per_host, facts.host_memory_bytes)
    hours = facts.train_tokens / tokens_per_s / 3600 if fits and facts.train_tokens and tokens_per_s else None
    gpu_hours = hours * gpus if hours is not None else None
    priced = gpu_hours is not None and facts.price_per_gpu_hour is not None
    return Report(
        name=facts.name,
        model=facts.model,
        gpus=gpus,
        step_time_ns=step_ns,
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_gpu=tokens_per_s / gpus,
        mfu=facts.model_flops / available if available else 0.0,
        hfu=facts.hardware_flops / available if available else 0.0,
        peak_flops_used=facts.peak_flops_per_s,
        bubble_fraction=mean["bubble"] / step_ns if step_ns else 0.0,
        bubble_over_ideal=mean["bubble"] / compute_ns if compute_ns else 0.0,
        ideal_bubble_fraction=_ideal_bubble(mean, facts),
        overlap_ratio=_overlap_ratio(sums, ranks),
        breakdown_ns=mean,
        ranks=ranks,
        transfers=tuple(transfer_reports(timeline)),
        peak_memory_bytes=peak.peak_memory_bytes,
        memory_by_category_bytes=peak.memory_at_peak_bytes,
        capacity_bytes=peak.capacity_bytes,
        fits=fits,
        verdict="",
        host_memory=host,
        loading=facts.loading,
        op_table=facts.op_table,
        warnings=(*facts.warnings, *_warnings(timeline, peak, host)),
        hours=hours,
        gpu_hours=gpu_hours,
        cost=gpu_hours * facts.price_per_gpu_hour if priced else None,  # type: ignore[operator]
        timeline=timeline,
    )


def _ideal_bubble(mean: Mapping[str, float], facts: RunFacts) -> float:
    """Set the schedule's idle time beside the pipelined work and what comes once per step (optimizer, reduction)."""
    once = mean["compute.optimizer"] + mean["exposed.dp"]
    work = sum(mean.values()) - mean["bubble"] - mean["exposed.pp"] - once
    idle = facts.idle_over_work * work
    return idle / (idle + work + once) if idle else 0.0


def _rank_report(timeline: Timeline, sums: StepSums, index: int) -> RankReport:
    binding = timeline.program.ranks[index]
    role = timeline.program.roles[binding.role]
    memory = memory_use(timeline, index)
    return RankReport(
        rank=binding.members[0],
        members=binding.members,
        stages=role.stages,
        device=role.device,
        capacity_bytes=role.capacity_bytes,
        breakdown_ns=sums.breakdown(index),
        bars=LazyBars(lambda: rank_bars(timeline, index)),
        memory_curve=memory.curve,
        peak_memory_bytes=memory.peak_bytes,
        peak_time_ns=memory.peak_time_ns,
        memory_at_peak_bytes=memory.at_peak_bytes,
    )


def _overlap_ratio(sums: StepSums, ranks: Sequence[RankReport]) -> float:
    found = list(zip([rank.count for rank in ranks], sums.hidden_ns.tolist(), sums.moving_ns.tolist(), strict=True))
    total = sum(count * moving for count, _, moving in found)
    return sum(count * hidden for count, hidden, _ in found) / total if total else 0.0


def _warnings(timeline: Timeline, peak: RankReport, host: HostMemory) -> tuple[str, ...]:
    found = []
    if not timeline.steady:
        found.append(
            "no two successive steps took equally long within the steps tried; the last one played is reported"
        )
    found.append(
        describe_nearly_full(
            peak.rank, peak.peak_memory_bytes, peak.capacity_bytes, allowances(peak.memory_at_peak_bytes)
        )
    )
    found.append(describe_overfull_host(host))
    return tuple(text for text in found if text)
