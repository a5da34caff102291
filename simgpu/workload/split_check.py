"""What a model and its training do not allow context and expert parallelism to split."""

from __future__ import annotations

from collections.abc import Iterator

from simgpu.errors import Issue
from simgpu.workload.model import Model
from simgpu.workload.software import PRESETS, Software
from simgpu.workload.splits import CP_COMM_TYPES, Splits
from simgpu.workload.training import Training


def split_issues(
    model: Model, training: Training, software: Software, splits: Splits, *, tp: int, sequence_parallel: bool
) -> Iterator[Issue]:
    """Yield everything that splits of a model do not fit.

    Parameters
    ----------
    model : Model
    training : Training
    software : Software
    splits : Splits
    tp : int
        Tensor-parallel degree.
    sequence_parallel : bool

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.software import DEFAULT
    >>> training = Training(sequence_length=4096, micro_batch_size=1, accumulation=1)
    >>> for issue in split_issues(bundled_model("llama-3-8b"), training, DEFAULT, Splits(cp=3), tp=1,
    ...                           sequence_parallel=False):
    ...     print(issue)
    training.sequence_length = 4096: is not a multiple of 2 x cp = 6, the chunks that balance causal attention; \
fix: use 4092 or 4098
    """
    yield from _context_issues(model, training, software, splits, tp)
    yield from _expert_issues(model, splits, tp, sequence_parallel)
    if splits.tp_overlap and tp > 1 and not sequence_parallel:
        # NVIDIA/Megatron-LM megatron/training/arguments.py: tp_comm_overlap needs sequence_parallel
        problem = "needs sequence parallelism: it overlaps the all-gathers and reduce-scatters of that"
        fix = "set parallel.sequence_parallel: true"
        yield Issue(field="parallel.tp_overlap", value="true", problem=problem, allowed="false", fix=fix)


def _context_issues(model: Model, training: Training, software: Software, splits: Splits, tp: int) -> Iterator[Issue]:
    cp, kind, length = splits.cp, splits.cp_comm_type, training.sequence_length
    if cp < 1:
        yield Issue(field="parallel.cp", value=str(cp), problem="must be at least 1")
    if cp <= 1:
        return
    if kind not in CP_COMM_TYPES:
        allowed = ", ".join(CP_COMM_TYPES)
        yield Issue(field="parallel.cp_comm_type", value=kind, problem="is not known", allowed=allowed)
    if not software.flash_attention:
        able = ", ".join(name for name, preset in PRESETS.items() if preset.flash_attention)
        problem = f"needs flash attention, which the software generation {software.name} has not"
        yield Issue(field="parallel.cp", value=str(cp), problem=problem, fix=f"set software to one of {able}")
    chunks = splits.chunks
    if length % chunks:
        below, above = length // chunks * chunks, (length // chunks + 1) * chunks
        yield Issue(
            field="training.sequence_length",
            value=str(length),
            problem=f"is not a multiple of 2 x cp = {chunks}, the chunks that balance causal attention",
            fix=f"use {below} or {above}" if below else f"use {above}",
        )
    if kind != "a2a":
        return
    for heads, what in ((model.heads // tp, "attention heads"), (max(model.kv_heads // tp, 1), "key/value heads")):
        if heads % cp:
            allowed = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
            yield Issue(
                field="parallel.cp",
                value=str(cp),
                problem=f"does not divide the {heads} {what} that a rank of {model.name} has at tp = {tp}",
                allowed=f"{allowed}, or another cp_comm_type",
                fix="set parallel.cp_comm_type: p2p",
            )


def _expert_issues(model: Model, splits: Splits, tp: int, sequence_parallel: bool) -> Iterator[Issue]:
    ep, experts = splits.ep, model.experts
    if ep < 1:
        yield Issue(field="parallel.ep", value=str(ep), problem="must be at least 1")
    if experts is None:  # some blocks have none
        return
    if ep > 1 and experts.count % ep:
        allowed = ", ".join(str(n) for n in range(1, experts.count + 1) if experts.count % n == 0)
        problem = f"does not divide the {experts.count} experts of {model.name}"
        yield Issue(field="parallel.ep", value=str(ep), problem=problem, allowed=allowed)
    if splits.expert_tp is not None and splits.expert_tp not in (1, tp):
        problem = f"is neither 1 nor tp = {tp}"
        allowed = ", ".join(str(n) for n in dict.fromkeys((1, tp)))
        yield Issue(field="parallel.expert_tp", value=str(splits.expert_tp), problem=problem, allowed=allowed)
    apart = ep > 1 or splits.expert_tp not in (None, tp)
    if apart and tp > 1 and not sequence_parallel:
        # NVIDIA/Megatron-LM megatron/training/arguments.py: experts and tensor parallelism need sequence parallelism
        problem = f"needs sequence parallelism at tp = {tp}: each rank sends its own tokens to the experts"
        field, value = ("parallel.ep", ep) if ep > 1 else ("parallel.expert_tp", splits.expert_tp)
        yield Issue(field=field, value=str(value), problem=problem, fix="set parallel.sequence_parallel: true")
