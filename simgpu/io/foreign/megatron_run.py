"""Batch, formats and parallelism that Megatron's arguments ask for, as scenario fields.

Defaults: NVIDIA/Megatron-LM megatron/training/arguments.py, validate_args.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simgpu.dtypes import DType
from simgpu.io.foreign.megatron_arguments import MegatronArguments
from simgpu.io.foreign.megatron_layout import pipeline_settings
from simgpu.io.foreign.megatron_model import bert_model, megatron_model
from simgpu.io.foreign.megatron_not_simulated import note_not_simulated
from simgpu.io.foreign.megatron_recompute import recompute_settings
from simgpu.io.foreign.megatron_replicas import replica_settings
from simgpu.io.foreign.megatron_software import megatron_software
from simgpu.io.foreign.number_formats import FORMATS
from simgpu.io.foreign.optimizer_names import optimizer
from simgpu.units import MIB

_DROPOUT: Final = 0.1  # of --attention-dropout and --hidden-dropout
_OPTIMIZERS: Final = ("adam", "sgd", "hybridadam", "cpu_adam")
CP_COMM_TYPES: Final = {"p2p": "p2p", "a2a": "a2a", "allgather": "all_gather"}
_FP16_AND_BF16: Final = ("fp16", "bf16")
_STRATEGY: Final = (
    "use-distributed-optimizer", "overlap-grad-reduce", "use-megatron-fsdp", "use-custom-fsdp", "use-torch-fsdp2",
    "deepspeed",
)  # fmt: skip


def megatron_settings(arguments: MegatronArguments, *, bert: bool = False) -> dict[str, Any]:
    """Return the scenario fields of a run; what a shell variable holds is left open in the ledger.

    Parameters
    ----------
    arguments : MegatronArguments
    bert : bool
        Whether the script trains BERT.

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError
        When Megatron itself refuses the arguments, or they ask for what is not simulated.
    """
    degrees = {
        field: arguments.integer(name, field=f"parallel.{field}", least=1)
        for field, name in (
            ("tp", "tensor-model-parallel-size"),
            ("pp", "pipeline-model-parallel-size"),
            ("cp", "context-parallel-size"),
        )
    }  # fmt: skip
    still = arguments.ledger.open
    known = {field: value or (None if f"parallel.{field}" in still else 1) for field, value in degrees.items()}
    tp, pp = known["tp"], known["pp"]
    model = bert_model(arguments, tp) if bert else megatron_model(arguments, tp)
    settings: dict[str, Any] = {"model": model}
    settings |= _batch(arguments)
    settings |= _formats(arguments)
    settings |= {f"parallel.{field}": value for field, value in degrees.items()}
    settings |= pipeline_settings(arguments, pp, model.get("layers") if model else None)
    settings |= _axes(arguments, tp, known["cp"])
    settings |= _replicas(arguments, settings)
    _check_positions(arguments, settings["training.sequence_length"])
    settings |= recompute_settings(arguments)
    settings["training.dropout"] = _dropout(arguments)
    settings["training.optimizer"] = _optimizer(arguments)
    generation = megatron_software(arguments, settings["training.precision"])
    settings["software"] = generation
    preset = generation if isinstance(generation, str) else generation["preset"]
    if preset in ("megatron-2021", "megatron-2022") or arguments.has("deepspeed"):
        # DeepSpeed's pipeline does so unless its own pipe_partitioned says no (runtime/pipe/engine.py)
        scatters = arguments.has("deepspeed") or not arguments.flag("no-scatter-gather-tensors-in-pipeline")
        if (tp is None or tp > 1) and (pp is None or pp > 1) and settings["parallel.sequence_parallel"] is None:
            settings["parallel.scatter_gather_tensors_in_pipeline"] = scatters
    note_not_simulated(arguments)
    return settings if arguments.has("micro-batch-size") else _part(arguments, settings)


def _part(arguments: MegatronArguments, settings: dict[str, Any]) -> dict[str, Any]:
    """Keep what is said: without --micro-batch-size, which Megatron needs, this is only a part of the arguments."""
    arguments.note("without --micro-batch-size, these are only a part of Megatron's arguments")
    defaults: tuple[str, ...] = ()
    if not arguments.has("attention-dropout", "hidden-dropout"):
        defaults += ("training.dropout",)
    if not arguments.has(*_STRATEGY):
        defaults += ("parallel.data_parallel", "ddp.bucket_cap_mb")
    if not arguments.has("optimizer"):
        defaults += ("training.optimizer",)
    if settings["training.precision"] == "fp32":
        defaults += ("training.precision",)
        arguments.leave_open("training.precision", "neither --fp16 nor --bf16 is given")
    return {field: value for field, value in settings.items() if field not in defaults}


def _batch(arguments: MegatronArguments) -> dict[str, Any]:
    found: dict[str, Any] = {
        "training.micro_batch_size": arguments.integer("micro-batch-size", field="training.micro_batch_size", least=1),
        "training.global_batch_size": arguments.integer(
            "global-batch-size", field="training.global_batch_size", least=1
        ),
    }
    length = arguments.integer("seq-length", field="training.sequence_length", least=1)
    if length is None:
        length = arguments.integer("encoder-seq-length", field="training.sequence_length", least=1)
    found["training.sequence_length"] = length
    if arguments.has("rampup-batch-size"):
        arguments.raw("rampup-batch-size")
        arguments.note(f"{arguments.key('rampup-batch-size')}: the batch that it ends at is simulated")
    steps = arguments.text("step-batch-size-schedule")
    if steps is not None and found["training.global_batch_size"] is None:
        last = steps.split()[-1].rpartition(":")[2]
        if not last.isdecimal():
            arguments.refuse("step-batch-size-schedule", "has no batch size at its end")
        found["training.global_batch_size"] = int(last)
        arguments.note(f"{arguments.key('step-batch-size-schedule')}: its last batch size, {last}, is simulated")
    alone = found["training.global_batch_size"] is None and found["training.micro_batch_size"] is not None
    if alone and "training.global_batch_size" not in arguments.ledger.open:
        found["training.gradient_accumulation"] = 1  # Megatron's default: one micro-batch per replica
    if arguments.flag("use-dynamic-batch-size"):
        words = f"{arguments.key('max-tokens-per-gpu')} {arguments.raw('max-tokens-per-gpu')}"
        for field in ("training.micro_batch_size", "training.sequence_length"):
            if found[field] is None:
                arguments.leave_open(field, f"sequences of all lengths are packed up to {words}")
    for field, name in (("training.micro_batch_size", "micro-batch-size"), ("training.sequence_length", "seq-length")):
        if found[field] is None and field not in arguments.ledger.open:
            arguments.leave_open(field, f"{arguments.key(name)} is not given")
    return found


def _formats(arguments: MegatronArguments) -> dict[str, Any]:
    both = [name for name in _FP16_AND_BF16 if arguments.flag(name)]
    fp8 = arguments.text("fp8-format", field="training.precision") or arguments.text("fp8", field="training.precision")
    if arguments.has("fp4-format"):
        arguments.refuse("fp4-format", "is not simulated: matrix products in 4 bits")
    if len(both) == 2:
        words = [arguments.key(name) for name in both] + ([f"{arguments.key('fp8-format')} {fp8}"] if fp8 else [])
        arguments.leave_open("training.precision", f"{', '.join(words)} are all given, of which Megatron takes one")
    if "training.precision" in arguments.ledger.open:
        return {"training.precision": None}
    precision = "fp8" if fp8 else both[0] if both else "fp32"
    if precision == "fp32":
        return {"training.precision": "fp32"}
    stored = both[0] if both else "bf16"
    in_fp32 = arguments.flag("accumulate-allreduce-grads-in-fp32")
    gradients = "fp32" if stored == "bf16" or in_fp32 else "fp16"  # validate_args: bf16 accumulates in fp32,
    # and --grad-reduce-in-bf16 is looked at under --bf16 alone
    if (arguments.flag("grad-reduce-in-bf16") and stored == "bf16") or arguments.has("deepspeed"):
        gradients = stored
    if arguments.has("deepspeed-config"):  # data_types.grad_accum_dtype of that file says what gradients add up in
        return {"training.precision": precision, "training.param_dtype": stored, "training.master_dtype": "fp32"}
    kept = arguments.text("main-grads-dtype")
    if kept not in (None, "fp32") and in_fp32:
        problem = "--main-grads-dtype can only be fp32 when --accumulate-allreduce-grads-in-fp32 is set"
        arguments.refuse("main-grads-dtype", problem)
    kept = kept or arguments.text("megatron-fsdp-main-grads-dtype")
    gradients = FORMATS.get(kept or "", gradients)  # the buffer that gradients add up and are reduced in
    sent = arguments.text("megatron-fsdp-grad-comm-dtype")
    return {
        "training.precision": precision,
        "training.param_dtype": stored,
        "training.master_dtype": _masters(arguments),
        "training.grad_dtype": gradients,
        "training.reduce_dtype": FORMATS.get(sent or "", gradients),
    }


def _masters(arguments: MegatronArguments) -> str:
    """Return the format of the optimizer's own weights, in 16 bits only where its kernels know them."""
    kept = arguments.text("main-params-dtype") or "fp32"
    if kept not in ("fp32", "fp16"):
        arguments.refuse("main-params-dtype", "is not known to Megatron", allowed="fp32, fp16")
    if kept == "fp16" and not arguments.flag("use-precision-aware-optimizer"):
        arguments.refuse("main-params-dtype", "needs --use-precision-aware-optimizer in Megatron", allowed="fp32")
    return kept


def _axes(arguments: MegatronArguments, tp: int | None, cp: int | None) -> dict[str, Any]:
    ep = arguments.integer("expert-model-parallel-size", field="parallel.ep", least=1)
    if ep is None:
        ep = arguments.integer("moe-expert-parallel-size", field="parallel.ep", least=1)
    expert_tp = arguments.integer("expert-tensor-parallel-size", field="parallel.expert_tp", least=1)
    split = arguments.flag("sequence-parallel") and tp != 1  # validate_args switches it off for one rank
    spread = arguments.integer("ds-sequence-parallel-size", field="parallel.cp", least=1)
    overlap = arguments.flag("tp-comm-overlap")
    if overlap and not split:
        asked = arguments.flag("sequence-parallel")
        needed = "--tensor-model-parallel-size of more than 1" if asked else "--sequence-parallel"
        arguments.refuse("tp-comm-overlap", f"needs {needed} in Megatron")
    found: dict[str, Any] = {
        "parallel.ep": ep,
        "parallel.expert_tp": expert_tp if arguments.has("num-experts") and expert_tp != tp else None,
        "parallel.sequence_parallel": split or None,
        "parallel.tp_overlap": overlap or None,
        "parallel.order": ["dp", "pp", "cp", "tp"] if arguments.flag("use-tp-pp-dp-mapping") else None,
    }
    if spread is not None and spread > 1:  # DeepSpeed Ulysses
        return found | {"parallel.cp": spread, "parallel.cp_comm_type": "a2a"}
    kind = arguments.text("cp-comm-type")
    if kind is not None:
        if kind not in CP_COMM_TYPES:
            arguments.refuse("cp-comm-type", "is not simulated", allowed=", ".join(CP_COMM_TYPES))
        found["parallel.cp_comm_type"] = CP_COMM_TYPES[kind] if cp is None or cp > 1 else None
    return found


def _replicas(arguments: MegatronArguments, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Give plain DDP the buckets of --ddp-bucket-size, in bytes of the format that is reduced."""
    found = replica_settings(arguments)
    size = found.pop("ddp.bucket_elements", None)
    reduced = settings.get("training.reduce_dtype") or "fp32"
    if size is not None:
        found["ddp.bucket_cap_mb"] = size * DType(reduced).bytes / MIB
    return found


def _check_positions(arguments: MegatronArguments, length: int | None) -> None:
    name = "max-position-embeddings"
    rows = arguments.integer(name, least=1) if arguments.has(name) else None
    if rows is not None and length is not None and rows < length and arguments.key(name).startswith("--"):
        arguments.refuse(name, f"is below --seq-length {length}, which Megatron refuses", allowed=f"at least {length}")


def _dropout(arguments: MegatronArguments) -> float:
    rates = [arguments.number(f"{part}-dropout") for part in ("attention", "hidden")]
    attention, hidden = (_DROPOUT if rate is None else rate for rate in rates)
    if (attention == 0) != (hidden == 0):
        arguments.note(
            f"attention dropout {attention:g} and hidden dropout {hidden:g} are simulated as one, the larger"
        )
    return max(attention, hidden)


def _optimizer(arguments: MegatronArguments) -> str:
    word = arguments.text("optimizer") or "adam"
    if word not in _OPTIMIZERS:
        arguments.refuse("optimizer", "is not simulated", allowed=", ".join(_OPTIMIZERS))
    if word not in ("adam", "sgd"):
        arguments.note(f"{arguments.key('optimizer')} {word} is simulated as adam on the GPU")
    return str(optimizer(word, arguments.ledger, arguments.key("optimizer"))["training.optimizer"])
