"""The usual levers of a training run: what to set in the scenario, and what the framework calls it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simgpu.config.case import Case
from simgpu.workload.architecture import Architecture

MEMORY: Final = "memory"
BUBBLE: Final = "bubble"
EXPOSED: Final = "exposed"
SCALING: Final = "scaling"
_TIME: Final = frozenset({EXPOSED, SCALING})

_MICRO: Final[Mapping[str, str]] = {
    "megatron": "--micro-batch-size {}",
    "deepspeed": "train_micro_batch_size_per_gpu: {}",
    "fsdp": "per_device_train_batch_size: {}",
    "trainer": "per_device_train_batch_size: {}",
}
_ACCUMULATION: Final[Mapping[str, str]] = {
    "megatron": "--global-batch-size {1}",
    "deepspeed": "gradient_accumulation_steps: {0}",
    "fsdp": "gradient_accumulation_steps: {0}",
    "trainer": "gradient_accumulation_steps: {0}",
}
_RECOMPUTE: Final[Mapping[str, Mapping[str, str]]] = {
    "full": {
        "megatron": "--recompute-granularity full --recompute-method uniform",
        "fsdp": "fsdp_activation_checkpointing: true (Accelerate)",
    },
    "selective": {"megatron": "--recompute-granularity selective"},
    "none": {"megatron": "without --recompute-granularity"},
}
_KINDS: Final[Mapping[str, str]] = {
    "ddp": "Accelerate: distributed_type MULTI_GPU",
    "zero1": "DeepSpeed: zero_optimization.stage 1",
    "zero2": "DeepSpeed: zero_optimization.stage 2",
    "zero3": "DeepSpeed: zero_optimization.stage 3",
    "fsdp": "Accelerate: fsdp_reshard_after_forward true (FULL_SHARD)",
    "hsdp": "Accelerate: fsdp_sharding_strategy HYBRID_SHARD",
    "distributed_optimizer": "--use-distributed-optimizer",
}
_OTHER_KINDS: Final[Mapping[str, tuple[tuple[str, frozenset[str]], ...]]] = {  # kinds to try, and against what
    "ddp": (("zero1", frozenset({MEMORY})), ("zero2", frozenset({MEMORY})), ("fsdp", frozenset({MEMORY}))),
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
        What the framework calls it.
    against : frozenset of str
        What it may help against: ``memory``, ``bubble``, ``exposed``, ``scaling``.
    """

    name: str
    settings: Mapping[str, Any]
    option: str
    against: frozenset[str] = field(default_factory=frozenset)


def framework(case: Case) -> str:
    """Return whose options a case is set with.

    Returns
    -------
    str
        ``megatron``, ``deepspeed``, ``fsdp`` or ``trainer``.

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> [framework(case) for case in load_cases("four_vs_eight")]
    ['fsdp', 'fsdp', 'trainer']
    """
    kind = case.strategy.data_parallel
    if case.strategy.megatron or kind == "distributed_optimizer":
        return "megatron"
    return "deepspeed" if kind.startswith("zero") else "fsdp" if kind in ("fsdp", "hsdp") else "trainer"


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
    own = framework(case)
    return (*_batch(case, own), *_overlap(case, own), *_recompute(case, own), *_sharding(case), *_layout(case, own))


def _batch(case: Case, own: str) -> Iterator[Lever]:
    training, dp = case.training, case.strategy.dp
    size, steps = training.micro_batch_size, training.accumulation

    def batch(micro: int, accumulation: int) -> dict[str, Any]:
        return {
            "training.micro_batch_size": micro,
            "training.gradient_accumulation": accumulation,
            "training.global_batch_size": None,
        }

    def accumulated(count: int, micro: int) -> str:
        return _ACCUMULATION[own].format(count, micro * count * dp)

    for factor in (2, 4):
        yield Lever(
            name="accumulation",
            settings=batch(size, factor * steps),
            option=accumulated(factor * steps, size),
            against=_TIME | {BUBBLE},
        )
    if size % 2 == 0:
        told = f"{_MICRO[own].format(size // 2)}, {accumulated(2 * steps, size // 2)}"
        settings = batch(size // 2, 2 * steps)
        yield Lever(name="micro_batch", settings=settings, option=told, against=frozenset({MEMORY, BUBBLE}))
    if steps % 2 == 0:
        told = f"{_MICRO[own].format(2 * size)}, {accumulated(steps // 2, 2 * size)}"
        yield Lever(name="micro_batch", settings=batch(2 * size, steps // 2), option=told, against=_TIME)


def _overlap(case: Case, own: str) -> Iterator[Lever]:
    strategy, kind = case.strategy, case.strategy.data_parallel
    if kind.startswith("zero"):
        if strategy.zero.overlap_comm is not True and kind != "zero3":
            settings: dict[str, Any] = {f"{_block(kind)}.overlap_comm": True}
            yield Lever(name="overlap", settings=settings, option="zero_optimization.overlap_comm: true", against=_TIME)
        for size in (strategy.zero.reduce_bucket_size // 4, strategy.zero.reduce_bucket_size * 4):
            settings = {f"{_block(kind)}.reduce_bucket_size": size}
            option = f"zero_optimization.reduce_bucket_size: {size}"
            yield Lever(name="bucket_size", settings=settings, option=option, against=_TIME)
    if kind == "ddp" and own == "trainer":
        for size in (10, 100):
            yield Lever(
                name="bucket_size",
                settings={"ddp.bucket_cap_mb": size},
                option=f"ddp_bucket_cap_mb: {size} (Trainer)",
                against=_TIME,
            )
    if kind == "fsdp" and not strategy.fsdp.forward_prefetch:
        option = "fsdp_forward_prefetch: true (Accelerate)"
        yield Lever(name="overlap", settings={"fsdp.forward_prefetch": True}, option=option, against=_TIME)
    if kind == "distributed_optimizer" and not strategy.distributed_optimizer.overlap_grad_reduce:
        settings = {
            "distributed_optimizer.overlap_grad_reduce": True,
            "distributed_optimizer.overlap_param_gather": True,
        }
        option = "--overlap-grad-reduce --overlap-param-gather"
        yield Lever(name="overlap", settings=settings, option=option, against=_TIME)
    if strategy.tp > 1 and strategy.sequence_parallel and not strategy.tp_overlap:
        option = "--tp-comm-overlap"
        yield Lever(name="overlap", settings={"parallel.tp_overlap": True}, option=option, against=_TIME)
    if strategy.tp > 1 and not strategy.sequence_parallel:
        option = "--sequence-parallel"
        settings = {"parallel.sequence_parallel": True}
        yield Lever(name="sequence_parallel", settings=settings, option=option, against=_TIME | {MEMORY})
    if strategy.pp > 1:
        option = "--overlap-p2p-communication-warmup-flush" if strategy.virtual_stages > 1 else "receives posted early"
        settings = {"parallel.overlap_p2p": True}
        yield Lever(name="overlap", settings=settings, option=option, against=_TIME | {BUBBLE})


def _recompute(case: Case, own: str) -> Iterator[Lever]:
    if not isinstance(case.model, Architecture):
        return
    for mode in ("selective", "full", "none"):
        if mode == case.training.recompute:
            continue
        plain = "gradient_checkpointing: true" if mode == "full" else f"recompute the attention core ({mode})"
        option = _RECOMPUTE[mode].get(own, "gradient_checkpointing: false" if mode == "none" else plain)
        against = _TIME | {BUBBLE} if mode == "none" else frozenset({MEMORY})
        settings = {"training.recompute": mode, "training.recompute_layers": None}
        yield Lever(name="recompute", settings=settings, option=option, against=against)


def _sharding(case: Case) -> Iterator[Lever]:
    strategy = case.strategy
    if strategy.dp == 1 or not isinstance(case.model, Architecture):
        return
    kinds = _OTHER_KINDS.get(strategy.data_parallel, ())
    if strategy.megatron and strategy.data_parallel == "ddp":
        kinds = (("distributed_optimizer", frozenset({MEMORY})),)
    for kind, against in kinds:
        settings = {"parallel.data_parallel": kind, **dict.fromkeys(("ddp", "zero", "fsdp", "distributed_optimizer"))}
        yield Lever(name="sharding", settings=settings, option=_KINDS[kind], against=against)


def _layout(case: Case, own: str) -> Iterator[Lever]:
    strategy, training, cluster = case.strategy, case.training, case.cluster
    if strategy.pp > 1 and strategy.table is None:
        if strategy.virtual_stages == 1 and strategy.schedule in ("1f1b", "gpipe"):
            for virtual in (2, 4):
                yield Lever(
                    name="interleaving",
                    settings={
                        "parallel.schedule": "interleaved_1f1b",
                        "parallel.virtual_stages": virtual,
                        "parallel.layers_per_stage": None,
                    },
                    option=f"--num-virtual-stages-per-pipeline-rank {virtual}",
                    against=frozenset({BUBBLE}),
                )
            settings: dict[str, Any] = {"parallel.schedule": "zbh1"}
            option = "a zero-bubble schedule (torch.distributed.pipelining, the zero-bubble fork of Megatron-LM)"
            yield Lever(name="schedule", settings=settings, option=option, against=frozenset({BUBBLE}))
        if strategy.schedule == "gpipe":
            settings, against = {"parallel.schedule": "1f1b"}, frozenset({MEMORY})
            yield Lever(name="schedule", settings=settings, option="1F1B", against=against)
    if not isinstance(case.model, Architecture):
        return
    for tp in (1, 2, 4, 8):
        if tp == strategy.tp or tp > cluster.gpus_per_node:
            continue
        crowded = strategy.tp > cluster.gpus_per_node  # tensor parallelism over the network
        against = frozenset({MEMORY}) if tp > strategy.tp else _TIME
        settings = {
            "parallel.tp": tp,
            "parallel.dp": None,
            "training.global_batch_size": case.global_batch_size,
            "training.micro_batch_size": training.micro_batch_size,
            "training.gradient_accumulation": None,
        }
        option = f"--tensor-model-parallel-size {tp}" if own == "megatron" else f"tensor parallelism of {tp} (Megatron)"
        if own == "megatron" or crowded or MEMORY in against:
            yield Lever(name="tensor_parallel", settings=settings, option=option, against=against)


def _block(kind: str) -> str:
    return "zero" if kind.startswith("zero") else kind
