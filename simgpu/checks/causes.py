"""What commonly makes a real step slower than it should be, as cases to simulate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from simgpu.config.case import Case
from simgpu.lower.perturbation import Perturbation
from simgpu.remedies import accepted
from simgpu.workload.architecture import Architecture
from simgpu.workload.model import Model
from simgpu.workload.software import PRESETS

COMPUTE: Final = (
    "compute.gemm",
    "compute.attention",
    "compute.memory_bound",
    "compute.recompute",
    "compute.optimizer",
)
"""Classes that grow with the work of a step."""

_TALK: Final = ("exposed", "exposed+wait")
_SLOW: Final = 1.25  # times as long, of a rank or a host of which nothing more is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A state that a real run may be in.

    Parameters
    ----------
    name : str
        Short and stable, for ``--json``.
    text : str
        What it is, and how to find out.
    classes : tuple of str
        Trace classes of the step that it makes larger or smaller.
    case : Case
        The case in that state.
    """

    name: str
    text: str
    classes: tuple[str, ...]
    case: Case


def causes(
    case: Case, *, slow_rank: int | None = None, slow_factor: float = _SLOW, batch: int | None = None
) -> tuple[Cause, ...]:
    """List the causes that this case can have.

    Parameters
    ----------
    case : Case
    slow_rank : int, optional
        The rank that is slower than the others, where traces tell; the last one otherwise.
    slow_factor : float
        How many times as long.
    batch : int, optional
        Sequences of the real step, where it states them: no cause has others then.

    Returns
    -------
    tuple of Cause

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> [cause.name for cause in causes(load_cases("four_vs_eight")[1])][:3]
    ['p2p_off', 'slow_rank', 'slow_host']
    """
    found = [
        *_communication(case),
        *_ranks(case, slow_rank, slow_factor),
        *_host(case),
        *_batch(case),
        *_sequences(case),
    ]
    if isinstance(case.model, Architecture) and case.software.flash_attention:
        eager = replace(PRESETS["eager"], host=case.software.host)
        found.append(
            Cause(
                name="eager_kernels",
                text="kernels are not fused, attention neither (software: eager); look for softmax, dropout and "
                "elementwise kernels in the trace, or ask for attn_implementation: flash_attention_2 or sdpa",
                classes=("compute.attention", "compute.memory_bound", "compute.gemm"),
                case=replace(case, software=eager),
            )
        )
    return tuple(one for one in found if batch in (None, one.case.global_batch_size))


def wrong_batch(case: Case, stated: int) -> str:
    """Say that a real run had another batch than the scenario.

    Parameters
    ----------
    case : Case
    stated : int
        Sequences of the real run's step.

    Returns
    -------
    str
    """
    return (
        f"wrong batch: the real run states a global batch size of {stated}, the scenario has "
        f"{case.global_batch_size}; set training.global_batch_size to {stated}"
    )


def batch_causes(case: Case, stated: int) -> tuple[Cause, ...]:
    """Return the case with the batch that a real run states: more or fewer micro-batches, else larger or smaller ones.

    Parameters
    ----------
    case : Case
    stated : int
        Sequences of the real run's step, other than the scenario's.

    Returns
    -------
    tuple of Cause
        One, or none where such a batch cannot be shared out among the ranks.

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> case = load_cases("four_vs_eight")[1]
    >>> case.global_batch_size, [cause.case.global_batch_size for cause in batch_causes(case, 192)]
    (64, [192])
    >>> batch_causes(case, 1)
    ()
    """
    training, dp = case.training, case.strategy.dp
    steps, rest = divmod(stated, training.micro_batch_size * dp)
    size, left = divmod(stated, training.accumulation * dp)
    if steps and not rest and accepted(case.strategy, steps):
        changed = replace(training, accumulation=steps)
    elif size and not left:
        changed = replace(training, micro_batch_size=size)
    else:
        return ()
    text = wrong_batch(case, stated)
    return (Cause(name="wrong_batch", text=text, classes=COMPUTE, case=replace(case, training=changed)),)


def _communication(case: Case) -> Iterator[Cause]:
    cluster, nccl = case.cluster, case.nccl
    if case.network_free or cluster.world_size == 1:
        return
    if cluster.gpus_per_node > 1 and not nccl.p2p_disable:
        yield Cause(
            name="p2p_off",
            text="NCCL does not use peer-to-peer access (NCCL_P2P_DISABLE, ACS or IOMMU on, a container without "
            "/dev/shm and peer mappings): NCCL_DEBUG=INFO shows channels via SHM instead of via P2P",
            classes=_TALK,
            case=replace(case, nccl=replace(nccl, p2p_disable=True)),
        )
    if cluster.nodes > 1 and not nccl.ib_disable:
        yield Cause(
            name="sockets",
            text="NCCL fell back to sockets between nodes: NCCL_DEBUG=INFO shows Using network Socket instead of IB",
            classes=_TALK,
            case=replace(case, nccl=replace(nccl, ib_disable=True)),
        )
        if nccl.net_gdr_level != "LOC":
            yield Cause(
                name="no_gpudirect",
                text="the NICs do not read GPU memory (nvidia-peermem is not loaded): NCCL_DEBUG=INFO shows NET/IB "
                "channels without GDRDMA",
                classes=_TALK,
                case=replace(case, nccl=replace(nccl, net_gdr_level="LOC")),
            )


def _ranks(case: Case, slow_rank: int | None, factor: float) -> Iterator[Cause]:
    if case.cluster.world_size == 1 or case.perturbation:
        return
    rank = case.cluster.world_size - 1 if slow_rank is None else slow_rank
    which = "a rank" if slow_rank is None else f"rank {slow_rank}"
    yield Cause(
        name="slow_rank",
        text=f"{which} computes {factor:.2f} times as long as the others, who wait for it: nvidia-smi -q -d "
        "PERFORMANCE there shows why its clock is low, nvidia-smi whether another process runs",
        classes=("wait", "exposed+wait") if slow_rank is None else (*COMPUTE, "exposed", "wait", "exposed+wait"),
        case=replace(case, perturbation=Perturbation(slow={rank: factor})),
    )


def _host(case: Case) -> Iterator[Cause]:
    host = case.software.host
    if host.free or host.cuda_graphs:
        return
    slower = replace(
        host,
        forward_op_ns=2 * host.forward_op_ns,
        backward_op_ns=2 * host.backward_op_ns,
        collective_ns=2 * host.collective_ns,
    )
    yield Cause(
        name="slow_host",
        text="the CPU issues work at half the speed that was assumed (a slow or oversubscribed core, a profiler with "
        "stacks, CUDA_LAUNCH_BLOCKING, hooks in Python): larger micro-batches, torch.compile or CUDA graphs help",
        classes=("host", "unattributed"),
        case=replace(case, software=replace(case.software, host=slower)),
    )


def _sequences(case: Case) -> Iterator[Cause]:
    """Yield the case with sequences of twice and half the length, where the model and its ranks can have them."""
    model, length = case.model, case.training.sequence_length
    if not isinstance(model, Architecture) or model.fixed_sequence is not None:
        return
    most = model.max_positions if isinstance(model, Model) and model.positions == "learned" else None
    if most is None or 2 * length <= most:
        yield _of_length(case, "sequence_doubled", "sequences twice as long", 2 * length)
    if length % (4 * case.strategy.cp * case.strategy.tp) == 0:
        yield _of_length(case, "sequence_halved", "sequences half as long", length // 2)


def _of_length(case: Case, name: str, text: str, length: int) -> Cause:
    changed = replace(case, training=replace(case.training, sequence_length=length))
    return Cause(name=name, text=f"the real run has {text}: {length:,} tokens", classes=COMPUTE, case=changed)


def _batch(case: Case) -> Iterator[Cause]:
    training = case.training
    size, steps = training.micro_batch_size, training.accumulation
    half_size, half_steps = (number // 2 if number % 2 == 0 else 0 for number in (size, steps))
    tries = (
        ("accumulation_doubled", "twice as many micro-batches a step", size, 2 * steps),
        ("accumulation_halved", "half as many micro-batches a step", size, half_steps),
        ("micro_batch_doubled", "micro-batches twice as large", 2 * size, steps),
        ("micro_batch_halved", "micro-batches half as large", half_size, steps),
        ("fewer_micro_batches", "half as many micro-batches, twice as large", 2 * size, half_steps),
        ("more_micro_batches", "twice as many micro-batches, half as large", half_size, 2 * steps),
    )
    for name, text, one, number in tries:
        if one and number and accepted(case.strategy, number):
            changed = replace(training, micro_batch_size=one, accumulation=number)
            yield Cause(
                name=name,
                text=f"the real run has {text}: {one} sequences x {number} x {case.strategy.dp} data-parallel ranks",
                classes=COMPUTE,
                case=replace(case, training=changed),
            )
