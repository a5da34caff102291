"""Blocks around a run: network, software, measured costs, disturbances, a published value."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Tag

from simgpu.config.block import Block
from simgpu.config.power import Watts
from simgpu.config.quantity import ANY_CASE, Factor, Flag, Positive, Seed, Share, Text, TimeNs
from simgpu.workload.software import Fusion

_Preset = Annotated[
    Literal["eager", "megatron-2021", "megatron-2022", "megatron-2023", "composer-2023", "flash", "te", "compile"],
    ANY_CASE,
]


_Kernel = Annotated[
    Literal["flash-1", "flash-2", "flash-3", "cudnn", "memory-efficient", "triton-2023", "triton"], ANY_CASE
]


def _listed(value: Any) -> Any:
    """Take one name for a list of one."""
    return [value] if isinstance(value, str) else value


class NcclBlock(Block):
    """NCCL's version and environment variables."""

    version: Text | None = None
    """Version, such as '2.27.3'."""
    algo: Text | None = None
    """NCCL_ALGO."""
    proto: Text | None = None
    """NCCL_PROTO."""
    p2p_disable: Flag | None = None
    """NCCL_P2P_DISABLE."""
    ib_disable: Flag | None = None
    """NCCL_IB_DISABLE."""
    net_gdr_level: Text | None = None
    """NCCL_NET_GDR_LEVEL."""


class NetworkBlock(Block):
    """Choices of the communication library."""

    nccl: NcclBlock | None = None
    """NCCL's version and environment variables."""
    logs: Annotated[list[Text], BeforeValidator(_listed)] | None = None
    """Files (relative to this file) of the machine itself: output of nccl-tests, whose times go before the model;
    NCCL's own log (NCCL_DEBUG=INFO), whose version and settings hold where network.nccl does not say otherwise; output
    of nvbandwidth, whose copies between a GPU and its host set the rates of the links on their way."""


class SoftwareBlock(Block):
    """Which kernels there are, and what the host costs."""

    preset: _Preset = "flash"
    """Software generation: which ops are one kernel (docs/software.md)."""
    optimizer: Annotated[Literal["fused", "foreach", "for_loop", "megatron"], ANY_CASE] | None = None
    """Kernels of the optimizer instead of the preset's: torch.optim's fused, foreach or neither, Megatron's."""
    fp8_scaling: Annotated[Literal["current", "delayed"], ANY_CASE] | None = None
    """How fp8 scales are found instead of the preset's way: a pass over each tensor, or from earlier steps."""
    cross_entropy: Annotated[Literal["chain", "native", "fused", "fused_linear"], ANY_CASE] | None = None
    """Kernels of the loss instead of the preset's: a chain in fp32, Megatron's own fusion of it, two passes, or Liger's
    kernel that computes the head's product too, in chunks, and keeps no logits."""
    unfused: Annotated[list[Annotated[Fusion, ANY_CASE]], BeforeValidator(_listed)] | None = None
    """Fusions of the preset that are switched off: what would be one kernel is several (docs/software.md)."""
    softmax: Annotated[Literal["fused", "half", "fp32"], ANY_CASE] | None = None
    """Without flash attention, kernels of the scores' softmax instead of the preset's: one, or PyTorch's in the
    activations' format or in fp32."""
    attention_kernel: _Kernel | None = None
    """Flash attention kernel instead of the preset's (docs/software.md)."""
    host_issue_ns: TimeNs | None = None
    """CPU time to issue one op, forward and backward, or one collective, instead of the preset's; 0: the GPU never
    waits for the CPU."""
    cuda_graphs: Flag = False
    """The step is replayed from CUDA graphs, whose kernels need far less CPU time."""
    cuda_launch_blocking: Flag = False
    """CUDA_LAUNCH_BLOCKING=1: the CPU waits for each kernel before it issues the next."""


class CostsBlock(Block):
    """How ops are priced."""

    table: Text | None = None
    """CSV file of measured ops (relative to this file), which go before the model; simgpu ops FILE --csv writes one."""
    rates: Annotated[Literal["peak", "sustained", "measured"], ANY_CASE] = "sustained"
    """Matrix rates: the datasheet's, the sustained ones of the device table, or those only where they were measured."""
    power_cap_w: Watts | None = None
    """Power limit of every GPU, watts or '400 W', which lowers its sustained rates; the card's own when left out."""


class LinkBlock(Block):
    """A link, or all whose names match, with less than its bandwidth."""

    link: Text
    """Name as reports give it, 'node0/nic2->pod0/leaf2'; '<->' for both directions, '*' for any text."""
    share: Share
    """What is left of its bandwidth, 0 to 1; at 0 the link is absent, both ways."""


class PerturbBlock(Block):
    """Disturbances, reproducible from the seed."""

    seed: Seed | None = None
    """Seed of the jitter; 0 when left out."""
    jitter: Factor | None = None
    """Standard deviation of every kernel's duration over its mean; log-normal, drawn per rank and kernel."""
    slow_ranks: dict[str | int, Factor] | None = None
    """How many times as long the kernels of some ranks take: by rank, or by 'node:gpu'."""
    links: list[LinkBlock] | None = None
    """Links with less bandwidth, or none."""


class MeasuredBlock(Block):
    """A published value to compare with."""

    step_time_s: Positive | None = None
    """Step time in seconds."""
    peak_memory_gib: Positive | None = None
    """What PyTorch's allocator has handed out at its peak (max_memory_allocated) on the fullest rank, in GiB."""
    source: Text | None = None
    """Where it was published."""


def _kind(value: Any) -> str:
    return "<name>" if isinstance(value, str) else "<block>"


NetworkField = Annotated[
    Annotated[Literal["free"], ANY_CASE, Tag("<name>")] | Annotated[NetworkBlock, Tag("<block>")], Discriminator(_kind)
]
"""``free``: communication costs nothing; or choices of the communication library."""

SoftwareField = Annotated[
    Annotated[_Preset, Tag("<name>")] | Annotated[SoftwareBlock, Tag("<block>")], Discriminator(_kind)
]
"""A preset's name, or a block."""
