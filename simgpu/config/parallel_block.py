"""The ``parallel`` block: degrees, placement, pipeline schedule, kind of data parallelism."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from simgpu.config.block import Block
from simgpu.config.foreign_names import WORDS
from simgpu.config.near import did_you_mean
from simgpu.config.quantity import ANY_CASE, LARGEST_LAYERS, Accumulation, Flag, Gpus, Layers, Whole, Words
from simgpu.parallel.data_parallel import STRATEGIES
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, schedule_name
from simgpu.units import QuantityError
from simgpu.workload.splits import CP_COMM_TYPES

# What people ask for by these names and SimGPU does not simulate, so that it can say so. A name that joins STRATEGIES
# is simulated, and may stay here.
_NAMED_STRATEGIES: Final = ("dataparallel",)

_KINDS: Final = tuple(dict.fromkeys((*STRATEGIES, *_NAMED_STRATEGIES)))


def _no_block(value: object) -> object:
    """Refuse what belongs beside the kind of data parallelism: its options, or the degree."""
    if isinstance(value, dict):
        fix = "write the kind alone, such as data_parallel: fsdp, and its options in the block fsdp at the top level"
        raise QuantityError("is a mapping, not a kind of data parallelism", allowed=", ".join(_KINDS), fix=fix)
    if isinstance(value, int) and not isinstance(value, bool):
        fix = "use parallel.dp for the number of replicas"
        raise QuantityError("is a number, not a kind of data parallelism", allowed=", ".join(_KINDS), fix=fix)
    return value


DataParallel = Annotated[str, Words(allowed=_KINDS), BeforeValidator(_no_block)]
_StageLayers = Annotated[int, Whole(least=0, most=LARGEST_LAYERS)]
Axis = Annotated[Literal["pp", "dp", "cp", "ep", "tp"], ANY_CASE]


def _schedule(value: object) -> str:
    """Read a schedule as scenarios spell it; the path of a CSV stays as it is."""
    if isinstance(value, str):
        known = schedule_name(value)
        if known is not None or value.lower().endswith(".csv"):
            return known or value
    word = WORDS.get(str(value).lower())
    raise QuantityError(
        "is no pipeline schedule",
        allowed=f"{', '.join(PIPELINE_SCHEDULES)}, or the path of a schedule CSV",
        fix=(f"use {word}" if word else did_you_mean(str(value), PIPELINE_SCHEDULES)) or "",
    )


Schedule = Annotated[
    str,
    PlainValidator(_schedule),
    WithJsonSchema({"anyOf": [{"enum": [*PIPELINE_SCHEDULES]}, {"type": "string", "pattern": r"\.csv$"}]}),
]


class ParallelBlock(Block):
    """How ranks are laid out and what each axis does."""

    tp: Gpus = 1
    """Tensor-parallel degree; divides the attention heads."""
    pp: Gpus | None = None
    """Pipeline-parallel degree; 1 when left out, or the stages of a synthetic model."""
    cp: Gpus = 1
    """Context-parallel degree: each rank holds 1/cp of every sequence, in two chunks that balance causal attention."""
    cp_comm_type: Annotated[str, Words(allowed=CP_COMM_TYPES)] = "p2p"
    """How keys and values get around (Megatron's names): `p2p` ring attention, `a2a` all-to-all over heads (DeepSpeed
    Ulysses), `all_gather` keys and values of the whole sequence. No effect at cp 1."""
    ep: Gpus = 1
    """Expert-parallel degree: each rank holds 1/ep of the experts. Taken from the ranks of dp and cp."""
    expert_tp: Gpus | None = None
    """Tensor-parallel degree of the experts, 1 or tp; tp when left out. At 1, ep is taken from the ranks of tp too."""
    dp: Gpus | None = None
    """Data-parallel degree; gpus / (tp x cp x pp) when left out."""
    virtual_stages: Layers | None = None
    """Stages (model chunks) on each pipeline rank; what the schedule needs when left out, 1 or 2."""
    layers_per_stage: list[_StageLayers] | None = None
    """Layers of each of the pp x virtual_stages stages, first stage first; equal when left out. 0 leaves a stage with
    just the embedding (the first) or the head (the last)."""
    sequence_parallel: Flag = False
    """Shard norms and dropout over tp (Megatron sequence parallelism). Without effect at tp 1."""
    order: list[Axis] | None = None
    """Mesh axes, slowest first; ranks of the last one are neighbours. [pp, dp, cp, tp] when left out. ep, if named,
    says where in the experts' own grid it stands; behind dp when left out."""
    schedule: Schedule | None = None
    """Pipeline schedule, or the path of a CSV of one; 1f1b when left out, interleaved_1f1b with virtual_stages."""
    pipeline_microbatches: Accumulation | None = None
    """Micro-batches of one run of the pipeline; all of the step's when left out (Megatron, DeepSpeed). Fewer, of which
    training.gradient_accumulation is a multiple, drain and fill the pipeline again for each run (torchtitan, whose runs
    have local_batch_size / pipeline_parallel_microbatch_size)."""
    overlap_p2p: Flag = False
    """Post receives early and never wait for sends; false waits for both, as Megatron does, where that is possible."""
    scatter_gather_tensors_in_pipeline: Flag = False
    """Send 1/tp of each activation, and gather it over tp on arrival (Megatron). No effect at tp 1 and with sequence
    parallelism, which splits activations anyway."""
    tp_overlap: Flag = False
    """Cut tensor-parallel exchanges in chunks that run beside their matrix products (Transformer Engine's user
    buffers). Needs sequence parallelism. No effect at tp 1."""
    data_parallel: DataParallel | None = None
    """Kind of data parallelism; ddp when left out and dp is above 1. `fsdp` is FSDP 2."""
