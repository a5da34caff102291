"""Time of work with the host's memory: copies, the CPU's update, reads and writes of an SSD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simgpu.metrics.report import Report
from simgpu.units import format_time

WORDS: Final[Mapping[str, str]] = {
    "cpu_update": "the CPU's update {}",
    "d2h": "gradients to the host {}",
    "h2d": "weights to the GPU {}",
    "nvme_read": "reads of the SSD {}",
    "nvme_write": "writes of the SSD {}",
}
_PAGEABLE: Final = "_pageable"


def host_work(report: Report) -> dict[str, float]:
    """Sum the durations of work with the host on the rank that has most of it, nanoseconds by kind; empty without any.

    Parameters
    ----------
    report : Report
    """
    ranks: dict[int, dict[str, float]] = {}
    for transfer in report.transfers:
        if transfer.axis == "host":
            total = ranks.setdefault(transfer.rank, {})
            kind = transfer.kind.removesuffix(_PAGEABLE)
            total[kind] = total.get(kind, 0.0) + transfer.count * transfer.mean_ns
    return max(ranks.values(), key=lambda total: sum(total.values()), default={})


def describe_host_work(report: Report) -> str:
    """Say in brackets what the host does and how long that takes, hidden or not; an empty text without offload.

    Parameters
    ----------
    report : Report
    """
    found = host_work(report)
    if not found:
        return ""
    pageable = any(transfer.kind.endswith(_PAGEABLE) for transfer in report.transfers)
    parts = [words.format(format_time(found[kind])) for kind, words in WORDS.items() if kind in found]
    return f" ({', '.join(parts)}{'; copies are pageable: pin_memory is faster' if pageable else ''})"
