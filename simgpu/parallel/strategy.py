"""The parallel layout a user asked for, checked and complete."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class DdpOptions:
    """PyTorch DistributedDataParallel. None keeps PyTorch's 25 MiB cap with a 1 MiB first bucket."""

    bucket_cap_mb: float | None = None  # MiB, as in PyTorch


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroOptions:
    """DeepSpeed ``zero_optimization``; bucket sizes count elements. None follows DeepSpeed's default per stage."""

    overlap_comm: bool | None = None
    reduce_bucket_size: int = 500_000_000
    allgather_bucket_size: int = 500_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FsdpOptions:
    """PyTorch FSDP (2): one unit per block."""

    reshard_after_forward: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How ranks are laid out and what each axis does.

    Parameters
    ----------
    tp, pp, dp : int
        Degrees of tensor, pipeline and data parallelism; their product is the world size.
    order : tuple of str
        Mesh axes, slowest first; the last axis' ranks are neighbours.
    sequence_parallel : bool
        Shard norms and dropout over tp (Megatron SP).
    schedule : str
        Pipeline schedule, lower case: ``1f1b`` or ``gpipe``.
    overlap_p2p : bool
        Post receives early and never wait for sends; False waits for both, as Megatron does by default.
    data_parallel : str
        ``none``, ``ddp``, ``zero1``, ``zero2``, ``zero3`` or ``fsdp``.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    order: tuple[str, ...] = ("pp", "dp", "tp")
    sequence_parallel: bool = False
    schedule: str = "1f1b"
    overlap_p2p: bool = False
    layers_per_stage: tuple[int, ...] | None = None
    data_parallel: str = "none"
    ddp: DdpOptions = field(default_factory=DdpOptions)
    zero: ZeroOptions = field(default_factory=ZeroOptions)
    fsdp: FsdpOptions = field(default_factory=FsdpOptions)

    @property
    def model_parallel(self) -> bool:
        """Whether one replica spans several GPUs: the framework is then Megatron for ``none`` and ``ddp``."""
        return self.tp > 1 or self.pp > 1

    @property
    def world_size(self) -> int:
        """Number of ranks, tp x pp x dp."""
        return self.tp * self.pp * self.dp
