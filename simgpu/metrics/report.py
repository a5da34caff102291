"""The numbers of one simulated step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simgpu.metrics.activity import Bar
from simgpu.metrics.critical_path import CriticalPath
from simgpu.metrics.host_memory import HostMemory
from simgpu.metrics.loading import LoadingMemory
from simgpu.timeline import Timeline

if TYPE_CHECKING:
    from simgpu.metrics.advice import Advice
    from simgpu.metrics.gain import Gain
    from simgpu.metrics.op_table_use import OpTableUse


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """One rank, or a class of ranks that were proved alike.

    ``bars`` are in order per stream; ``memory_curve`` is (time_ns, total_bytes) after each change, relative to the
    start of the step; ``memory_at_peak_bytes`` says what the peak is made of.
    """

    rank: int  # the representative
    members: tuple[int, ...]
    stages: tuple[int, ...]
    device: str
    capacity_bytes: int
    breakdown_ns: Mapping[str, int]
    bars: Sequence[Bar]
    memory_curve: tuple[tuple[int, int], ...]
    peak_memory_bytes: int
    peak_time_ns: int
    memory_at_peak_bytes: Mapping[str, int]

    @property
    def count(self) -> int:
        return len(self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """All transfers of one kind and size on one axis, as one rank sees them.

    Parameters
    ----------
    count : int
        Per step, on the ranks of ``rank`` (a representative).
    bytes : int
        Payload of each.
    mean_ns : float
        Mean duration from start to end.
    busbw_bytes_per_s : float
        nccl-tests' bus bandwidth, mean; 0 for free transfers.
    latency_share : float
        Part of the mean duration in which no byte moves at full rate: start, ring steps, pipeline fill.
    bottleneck : str
        The link that was full when this transfer was held below its top speed for most of the time, else the one
        that is busiest while it is alone.
    link_use : float
        Part of that link's rate in use then; 1 when it was full.
    """

    rank: int
    axis: str
    kind: str
    bytes: int
    count: int
    mean_ns: float
    busbw_bytes_per_s: float
    latency_share: float
    crosses_network: bool
    algorithm: str
    source: str
    bottleneck: str
    link_use: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything known about one run.

    Fractions are of 1. ``breakdown_ns`` is the mean over ranks, by class of ``metrics.activity.CLASSES``, and sums to
    ``step_time_ns``; so does every rank's own breakdown, exactly.
    """

    name: str
    model: str
    gpus: int
    step_time_ns: int
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    mfu: float
    hfu: float
    peak_flops_used: float  # FLOP/s of one GPU that MFU divides by
    bubble_fraction: float
    bubble_over_ideal: float
    ideal_bubble_fraction: float  # with this run's mean work in equal stages and free messages; 0 without a pipeline
    overlap_ratio: float
    breakdown_ns: Mapping[str, float]
    ranks: tuple[RankReport, ...]
    transfers: tuple[TransferReport, ...]
    peak_memory_bytes: int
    memory_by_category_bytes: Mapping[str, int]
    capacity_bytes: int
    fits: bool
    verdict: str
    host_memory: HostMemory = field(default_factory=HostMemory)  # of the computer that needs most of it
    loading: LoadingMemory = field(default_factory=LoadingMemory)
    op_table: OpTableUse | None = None  # what a measured table of ops contributed
    warnings: tuple[str, ...] = ()
    gpu_hours: float | None = None
    cost: float | None = None
    hours: float | None = None
    what_ifs: tuple[Gain, ...] = ()  # what the step would gain from changes, where that was asked
    advice: tuple[Advice, ...] | None = None  # levers that would help; None where none were tried
    disappointments: tuple[str, ...] = ()  # what does, in words
    critical_path: CriticalPath | None = field(default=None, repr=False)  # the chain of ops that decides the step
    timeline: Timeline | None = field(default=None, repr=False, compare=False)

    @property
    def step_time_s(self) -> float:
        return self.step_time_ns / 1e9
