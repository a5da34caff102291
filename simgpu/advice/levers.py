"""The usual levers of a training run: what to set in the scenario, and what the framework calls it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from simgpu.advice.options import framework, lever_options
from simgpu.config.case import Case
from simgpu.workload.architecture import Architecture
from simgpu.workload.model import Model

MEMORY: Final = "memory"
BUBBLE: Final = "bubble"
EXPOSED: Final = "exposed"
SCALING: Final = "scaling"
_TIME: Final = frozenset({EXPOSED, SCALING})

_OTHER_KINDS: Final[Mapping[str, tuple[tuple[str, frozenset[str]], ...]]] = {  # kinds to try, and against what
    "ddp": tuple((kind, frozenset({MEMORY})) for kind in ("zero1", "zero2", "fsdp", "distributed_optimizer")),
    "zero1": (("zero2", frozenset({MEMORY})), ("zero3", frozenset({MEMORY}))),
    "zero2": (("zero3", frozenset({MEMORY})), ("zero1", _TIME)),
    "zero3": (("zero2", _TIME), ("zero1", _TIME)),
    "fsdp": (("hsdp", _TIME), ("zero2", _TIME), ("ddp", _TIME)),
    "hsdp": (("fsdp", frozenset({MEMORY})),),
    "none": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One change of a scenario.

    Parameters
    ----------
    name : str
    settings : mapping of str to object
        Fields by dotted path; None takes one out.
    option : str
        What the framework calls it: a template for `simgpu.advice.options.filled`.
    against : frozenset of str
        What it may help against: ``memory``, ``bubble``, ``exposed``, ``scaling``.
    """

    name: str
    settings: Mapping[str, Any]
    option: str
    against: frozenset[str] = field(default_factory=frozenset)


def levers(case: Case) -> tuple[Lever, ...]:
    """List the levers of a case; whether the scenario allows one is for the loader to say.

    Parameters
    ----------
    case : Case

    Returns
    -------
    tuple of Lever

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> sorted({lever.name for lever in levers(load_cases("pipeline_bubble")[0])})
    ['accumulation', 'interleaving', 'micro_batch', 'overlap', 'recompute', 'schedule', 'tensor_parallel']
    """
    options = lever_options(framework(case))
    found = (*_batch(case), *_overlap(case), *_recompute(case), *_loss(case), *_sharding(case), *_layout(case))
    kind = "" if case.strategy.pp == 1 else ".pipeline" if case.strategy.pipeline_microbatches is None else ".runs"
    named = ((lever, _named(lever, options, kind)) for lever in found)
    return tuple(replace(lever, option=option) for lever, option in named if option)


def _named(lever: Lever, options: Mapping[str, str], kind: str) -> str:
    """Return what a framework calls a lever, piece by piece; nothing where it lacks one.

    ``kind`` is that of the step: empty, ``.pipeline``, or ``.runs`` where a step is several runs of one.
    """
    pieces = [options.get(piece + kind) or options.get(piece) for piece in lever.option.split()]
    return ", ".join(piece for piece in pieces if piece) if all(pieces) else ""


def _batch(case: Case) -> Iterator[Lever]:
    size, steps, run = case.training.micro_batch_size, case.training.accumulation, case.strategy.pipeline_microbatches

    def batch(micro: int, accumulation: int) -> dict[str, Any]:
        settings = {
            "training.micro_batch_size": micro,
            "training.gradient_accumulation": accumulation,
            "training.global_batch_size": None,
        }
        # a run of the pipeline takes as many samples as before
        return settings | ({} if run is None else {"parallel.pipeline_microbatches": run * size // micro})

    for factor in (2, 4):
        settings = batch(size, factor * steps)
        yield Lever(name="accumulation", settings=settings, option="accumulation", against=_TIME | {BUBBLE})
    both = "micro_batch accumulation"
    if size % 2 == 0:
        settings = batch(size // 2, 2 * steps)
        yield Lever(name="micro_batch", settings=settings, option=both, against=frozenset({MEMORY, BUBBLE}))
    if steps % 2 == 0 and (run is None or run % 2 == 0):
        yield Lever(name="micro_batch", settings=batch(2 * size, steps // 2), option=both, against=_TIME)
    if run is not None and run < steps:
        for longer in sorted({length for length in (2 * run, steps) if steps % length == 0}):
            settings = {"parallel.pipeline_microbatches": longer}
            yield Lever(name="pipeline_run", settings=settings, option="pipeline_run", against=_TIME | {BUBBLE})


def _overlap(case: Case) -> Iterator[Lever]:
    strategy, kind = case.strategy, case.strategy.data_parallel
    if kind.startswith("zero"):
        if strategy.zero.overlap_comm is not True and kind != "zero3":
            yield Lever(name="overlap", settings={"zero.overlap_comm": True}, option="overlap.zero", against=_TIME)
        for size in (strategy.zero.reduce_bucket_size // 4, strategy.zero.reduce_bucket_size * 4):
            settings: dict[str, Any] = {"zero.reduce_bucket_size": size}
            yield Lever(name="bucket_size", settings=settings, option="bucket.zero", against=_TIME)
    if kind == "ddp":
        for size in (10, 100):
            settings = {"ddp.bucket_cap_mb": size}
            yield Lever(name="bucket_size", settings=settings, option="bucket.ddp", against=_TIME)
    if kind == "fsdp" and not strategy.fsdp.forward_prefetch:
        yield Lever(name="overlap", settings={"fsdp.forward_prefetch": True}, option="overlap.fsdp", against=_TIME)
    if kind == "distributed_optimizer" and not strategy.distributed_optimizer.overlap_grad_reduce:
        settings = {
            "distributed_optimizer.overlap_grad_reduce": True,
            "distributed_optimizer.overlap_param_gather": True,
        }
        yield Lever(name="overlap", settings=settings, option="overlap.distributed_optimizer", against=_TIME)
    if strategy.tp > 1 and strategy.sequence_parallel and not strategy.tp_overlap:
        yield Lever(name="overlap", settings={"parallel.tp_overlap": True}, option="overlap.tp", against=_TIME)
    if strategy.tp > 1 and not strategy.sequence_parallel:
        settings = {"parallel.sequence_parallel": True}
        against = _TIME | {MEMORY}
        yield Lever(name="sequence_parallel", settings=settings, option="sequence_parallel", against=against)
    if strategy.pp > 1:
        option = "overlap.p2p.interleaved" if strategy.virtual_stages > 1 else "overlap.p2p"
        settings = {"parallel.overlap_p2p": True}
        yield Lever(name="overlap", settings=settings, option=option, against=_TIME | {BUBBLE})


def _recompute(case: Case) -> Iterator[Lever]:
    if not isinstance(case.model, Architecture):
        return
    for mode in ("selective", "full", "none"):
        if mode == case.training.recompute:
            continue
        against = _TIME | {BUBBLE} if mode == "none" else frozenset({MEMORY})
        settings = {"training.recompute": mode, "training.recompute_layers": None}
        yield Lever(name="recompute", settings=settings, option=f"recompute.{mode}", against=against)


def _loss(case: Case) -> Iterator[Lever]:
    """Take the loss with the head's product, in chunks: a large vocabulary's logits are a large part of memory."""
    if not isinstance(case.model, Model) or case.strategy.tp > 1 or case.strategy.pp > 1:
        return
    if not case.software.fused_linear_loss:
        settings = {"software.cross_entropy": "fused_linear"}
        yield Lever(name="fused_loss", settings=settings, option="fused_loss", against=frozenset({MEMORY}))


def _sharding(case: Case) -> Iterator[Lever]:
    strategy = case.strategy
    if strategy.dp == 1 or not isinstance(case.model, Architecture):
        return
    kinds = _OTHER_KINDS.get(strategy.data_parallel, ())
    for kind, against in kinds:
        if kind == "hsdp" and strategy.tp * strategy.cp * strategy.dp <= case.cluster.gpus_per_node:
            continue  # one node's ranks are a single group: all of them share the weights out as before
        settings = {"parallel.data_parallel": kind, **dict.fromkeys(("ddp", "zero", "fsdp", "distributed_optimizer"))}
        yield Lever(name="sharding", settings=settings, option=f"sharding.{kind}", against=against)


def _layout(case: Case) -> Iterator[Lever]:
    strategy, training, cluster = case.strategy, case.training, case.cluster
    if strategy.pp > 1 and strategy.table is None:
        if strategy.virtual_stages == 1 and strategy.schedule in ("1f1b", "gpipe"):
            for virtual in (2, 4):
                settings: dict[str, Any] = {
                    "parallel.schedule": "interleaved_1f1b",
                    "parallel.virtual_stages": virtual,
                    "parallel.layers_per_stage": None,
                }
                against = frozenset({BUBBLE})
                yield Lever(name="interleaving", settings=settings, option="interleaving", against=against)
            settings = {"parallel.schedule": "zbh1"}
            yield Lever(name="schedule", settings=settings, option="schedule.zbh1", against=frozenset({BUBBLE}))
        if strategy.schedule == "gpipe":
            settings = {"parallel.schedule": "1f1b"}
            yield Lever(name="schedule", settings=settings, option="schedule.1f1b", against=frozenset({MEMORY}))
    if not isinstance(case.model, Architecture):
        return
    for tp in (1, 2, 4, 8):
        if tp == strategy.tp or tp > cluster.gpus_per_node:
            continue
        against = frozenset({MEMORY}) if tp > strategy.tp else _TIME
        settings = {
            "parallel.tp": tp,
            "parallel.dp": None,
            "training.global_batch_size": case.global_batch_size,
            "training.micro_batch_size": training.micro_batch_size,
            "training.gradient_accumulation": None,
        }
        yield Lever(name="tensor_parallel", settings=settings, option="tensor_parallel", against=against)
