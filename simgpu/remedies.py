"""What could be changed in a case that does not fit, as cases to simulate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from simgpu.config.case import Case
from simgpu.config.recipe import framework_formats
from simgpu.workload.model import Model

MOST_MICROBATCHES = 512
"""Smaller micro-batches are tried up to this many per step; more would take long to play."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change in words, with the fields to set, and the changed case."""

    text: str
    case: Case


def memory_remedies(case: Case) -> tuple[Remedy, ...]:
    """List single changes that lower memory, in the order people try them, then all of them together.

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> [remedy.text for remedy in memory_remedies(load_cases("four_vs_eight")[2])]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['parallel.data_parallel: fsdp', 'training.recompute: full',
     'parallel.data_parallel: fsdp with training.recompute: full']
    """
    single = tuple(_single(case))
    if len(single) < 2:
        return single
    together = case
    for remedy in single:
        together = replace(
            together,
            training=replace(
                together.training,
                micro_batch_size=min(together.training.micro_batch_size, remedy.case.training.micro_batch_size),
                accumulation=max(together.training.accumulation, remedy.case.training.accumulation),
                recompute=remedy.case.training.recompute
                if remedy.case.training.recompute != case.training.recompute
                else together.training.recompute,
            ),
        )
        if remedy.case.strategy.data_parallel != case.strategy.data_parallel:
            together = _with_fsdp(together)
        if remedy.case.strategy.schedule != case.strategy.schedule:
            together = replace(together, strategy=replace(together.strategy, schedule=remedy.case.strategy.schedule))
    return (*single, Remedy(text=" with ".join(remedy.text for remedy in single), case=together))


def _single(case: Case) -> Iterator[Remedy]:
    training, strategy = case.training, case.strategy
    if strategy.dp > 1 and strategy.data_parallel not in ("fsdp", "zero3") and isinstance(case.model, Model):
        yield Remedy(text="parallel.data_parallel: fsdp", case=_with_fsdp(case))
    if strategy.pp > 1 and strategy.schedule == "gpipe":
        yield Remedy(text="parallel.schedule: 1f1b", case=replace(case, strategy=replace(strategy, schedule="1f1b")))
    if training.micro_batch_size > 1 and training.micro_batch_size * training.accumulation <= MOST_MICROBATCHES:
        smaller = replace(training, micro_batch_size=1, accumulation=training.accumulation * training.micro_batch_size)
        yield Remedy(text="training.micro_batch_size: 1", case=replace(case, training=smaller))
    if training.recompute != "full" and isinstance(case.model, Model):
        yield Remedy(text="training.recompute: full", case=replace(case, training=replace(training, recompute="full")))


def _with_fsdp(case: Case) -> Case:
    """Shard everything, in the number formats that FSDP keeps by default."""
    formats = framework_formats("fsdp", model_parallel=case.strategy.model_parallel, precision=case.training.precision)
    training = replace(
        case.training,
        param_dtype=formats.param,
        grad_dtype=formats.grad,
        reduce_dtype=formats.reduce,
        master_dtype=formats.master,
    )
    return replace(case, training=training, strategy=replace(case.strategy, data_parallel="fsdp"))
