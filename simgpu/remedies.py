"""What could be changed in a case that does not fit, as cases to simulate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce

from simgpu.config.case import Case
from simgpu.config.recipe import framework_formats
from simgpu.workload.model import Model

Change = Callable[[Case], Case]

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
    changes = tuple(_changes(case))
    single = tuple(Remedy(text=text, case=change(case)) for text, change in changes)
    if len(single) < 2:
        return single
    together = reduce(lambda changed, item: item[1](changed), changes, case)
    return (*single, Remedy(text=" with ".join(text for text, _ in changes), case=together))


def _changes(case: Case) -> Iterator[tuple[str, Change]]:
    training, strategy, real = case.training, case.strategy, isinstance(case.model, Model)
    if strategy.dp > 1 and strategy.data_parallel not in ("fsdp", "zero3") and real:
        yield "parallel.data_parallel: fsdp", _with_fsdp
    if strategy.pp > 1 and strategy.schedule == "gpipe":
        yield "parallel.schedule: 1f1b", _with_1f1b
    if training.micro_batch_size > 1 and training.micro_batch_size * training.accumulation <= MOST_MICROBATCHES:
        yield "training.micro_batch_size: 1", _with_single_sequences
    if training.recompute != "full" and real:
        yield "training.recompute: full", _with_recompute


def _with_1f1b(case: Case) -> Case:
    return replace(case, strategy=replace(case.strategy, schedule="1f1b"))


def _with_single_sequences(case: Case) -> Case:
    """Keep the global batch: as many more micro-batches as each gets smaller."""
    training = case.training
    accumulation = training.accumulation * training.micro_batch_size
    return replace(case, training=replace(training, micro_batch_size=1, accumulation=accumulation))


def _with_recompute(case: Case) -> Case:
    return replace(case, training=replace(case.training, recompute="full"))


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
