"""The rank that others wait for, and how many ranks were simulated for all."""

from __future__ import annotations

from typing import Final

from simgpu.metrics.report import RankReport, Report

NOTABLE: Final = 0.005
"""A rank that computes less than this above the median of its stage's ranks is as slow as they are."""


def describe_slowest(report: Report) -> str:
    """Name the rank whose kernels take longest beside the median of the ranks with the same stages; empty if alike.

    Parameters
    ----------
    report : Report

    Examples
    --------
    >>> import simgpu
    >>> text = {"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "parallel": {"data_parallel": "ddp"},
    ...         "training": {"sequence_length": 512, "micro_batch_size": 2, "gradient_accumulation": 1},
    ...         "software": {"host_issue_ns": 0}, "network": "free", "perturb": {"slow_ranks": {3: 1.5}}}
    >>> describe_slowest(simgpu.run(text)[0])
    ' (rank 3 computes 50.0 % longer than the median of its stage)'
    """
    stages: dict[tuple[int, ...], list[RankReport]] = {}
    for rank in report.ranks:
        stages.setdefault(rank.stages, []).append(rank)
    excess, slowest = max(
        ((_compute_ns(rank) / median - 1, rank) for ranks in stages.values() for rank, median in _beside_median(ranks)),
        key=lambda item: item[0],
        default=(0.0, None),
    )
    if slowest is None or excess < NOTABLE:
        return ""
    more = f" and {slowest.count - 1:,} more" if slowest.count > 1 else ""
    verb = "compute" if more else "computes"
    return f" (rank {slowest.rank}{more} {verb} {100 * excess:.1f} % longer than the median of its stage)"


def describe_classes(report: Report) -> str:
    """Say how many classes of ranks stood for all.

    Parameters
    ----------
    report : Report

    Examples
    --------
    >>> import simgpu
    >>> describe_classes(simgpu.run("pipeline_ideal")[0])
    '4 ranks, each simulated by itself'
    """
    classes = len(report.ranks)
    if classes == report.gpus:
        return f"{classes:,} ranks, each simulated by itself" if classes > 1 else "1 rank"
    return f"{report.gpus:,} ranks in {classes:,} class{'es' if classes > 1 else ''}"


def _beside_median(ranks: list[RankReport]) -> list[tuple[RankReport, int]]:
    """Pair each rank with the median of all, members counted, where that is above 0."""
    order, seen = sorted(ranks, key=_compute_ns), 0
    half = sum(rank.count for rank in ranks) / 2
    for rank in order:
        seen += rank.count
        if seen >= half:
            median = _compute_ns(rank)
            return [(each, median) for each in ranks] if median else []
    return []


def _compute_ns(rank: RankReport) -> int:
    return sum(value for name, value in rank.breakdown_ns.items() if name.startswith("compute."))
