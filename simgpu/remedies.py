"""What could be changed in a case that does not fit or waits for the CPU, as cases to simulate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from simgpu.config.case import Case
from simgpu.config.recipe import framework_formats
from simgpu.parallel.data_parallel import SHARDED_WEIGHTS
from simgpu.parallel.schedules import refusal
from simgpu.parallel.strategy import Strategy
from simgpu.workload.architecture import Architecture

Change = Callable[[Case], Case]

MOST_MICROBATCHES = 512
"""Smaller micro-batches are tried up to this many per step; more would take long to play."""


LEANER: Final[Mapping[str, str]] = {"gpipe": "1f1b", "looped_bfs": "interleaved_1f1b", "zbh2": "zbh1"}
"""Schedules that keep fewer activations on the same placement."""


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


def launch_remedies(case: Case) -> tuple[Remedy, ...]:
    """List what makes a launch-bound step faster: fewer CPU nanoseconds per kernel, or more work in each.

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> [remedy.text for remedy in launch_remedies(load_cases("four_vs_eight")[0])]
    ['software.cuda_graphs: true', 'training.micro_batch_size: 2']
    """
    host, training = case.software.host, case.training
    size, half = 2 * training.micro_batch_size, training.accumulation // 2
    halved = training.accumulation % 2 == 0 and accepted(case.strategy, half)
    graphs = replace(case.software, host=replace(host, cuda_graphs=True, launch_blocking=False))
    larger = replace(training, micro_batch_size=size, accumulation=half if halved else training.accumulation)
    found = [Remedy(text=f"training.micro_batch_size: {size}", case=replace(case, training=larger))]
    if host.launch_blocking:
        plain = replace(case.software, host=replace(host, launch_blocking=False))
        found.insert(0, Remedy(text="software.cuda_launch_blocking: false", case=replace(case, software=plain)))
    elif not host.cuda_graphs:
        found.insert(0, Remedy(text="software.cuda_graphs: true", case=replace(case, software=graphs)))
    return tuple(found)


def _changes(case: Case) -> Iterator[tuple[str, Change]]:
    training, strategy, real = case.training, case.strategy, isinstance(case.model, Architecture)
    if strategy.dp > 1 and strategy.data_parallel not in SHARDED_WEIGHTS and real:
        yield "parallel.data_parallel: fsdp", _with_fsdp
    leaner = replace(strategy, schedule=LEANER.get(strategy.schedule, strategy.schedule))
    if strategy.pp > 1 and leaner != strategy and accepted(leaner, training.accumulation):
        yield f"parallel.schedule: {leaner.schedule}", _with_leaner_schedule
    microbatches = training.micro_batch_size * training.accumulation
    if training.micro_batch_size > 1 and microbatches <= MOST_MICROBATCHES and accepted(strategy, microbatches):
        yield "training.micro_batch_size: 1", _with_single_sequences
    if training.recompute != "full" and real:
        yield "training.recompute: full", _with_recompute


def accepted(strategy: Strategy, microbatches: int) -> bool:
    """Whether a pipeline can have so many micro-batches; a schedule from a file has a number of its own."""
    if strategy.pp == 1:
        return True
    return strategy.table is None and not refusal(
        strategy.schedule,
        ranks=strategy.pp,
        virtual=strategy.virtual_stages,
        microbatches=microbatches,
        pipeline_microbatches=strategy.pipeline_microbatches,
    )


def _with_leaner_schedule(case: Case) -> Case:
    return replace(case, strategy=replace(case.strategy, schedule=LEANER[case.strategy.schedule]))


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
