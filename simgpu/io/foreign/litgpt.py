"""LitGPT's recipes: ``litgpt finetune`` and ``litgpt pretrain``.

Names, defaults and what they do: Lightning-AI/litgpt litgpt/finetune/{full,lora}.py, litgpt/pretrain.py and args.py.
Fine-tuning on several GPUs shards with FSDP and recomputes every block; pretraining compiles the model, and shards
within a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.adapters import quantized
from simgpu.io.foreign.document import mapping_of
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.litgpt_model import litgpt_model
from simgpu.io.foreign.number_formats import LIGHTNING
from simgpu.io.foreign.optimizer_names import optimizer
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading

KIND: Final = "litgpt"
_ADAPTED: Final = {
    "lora_query": ("q_proj",), "lora_key": ("k_proj",), "lora_value": ("v_proj",), "lora_projection": ("o_proj",),
    "lora_mlp": ("gate_proj", "up_proj", "down_proj"),
}  # fmt: skip
_SIZES: Final = {True: (4, 512), False: (1, 16)}
"""Default sequences of a micro-batch and of a step: litgpt/pretrain.py, and litgpt/finetune/{full,lora}.py."""
_ON: Final = ("lora_query", "lora_value")  # where the recipe does not say
_IDLE: Final = (
    "out_dir", "data", "eval", "logger_name", "seed", "access_token", "resume", "tokenizer_dir",
    "initial_checkpoint_dir", "lora_alpha", "lora_dropout", "lora_query", "lora_key", "lora_value", "lora_projection",
    "lora_mlp", "lora_head", "optimizer.init_args", "log",
    *(f"train.{name}" for name in (
        "save_interval", "log_interval", "lr_warmup_steps", "lr_warmup_fraction", "epochs", "max_tokens", "max_steps",
        "max_time", "max_norm", "min_lr", "learning_rate", "weight_decay", "beta1", "beta2",
        "max_iters", "shuffle", "max_additional_steps",
    )),
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file is a recipe of LitGPT.

    Examples
    --------
    >>> recognise(Path("lora.yaml"), "checkpoint_dir: c/Llama-2-7b-hf\ntrain: {micro_batch_size: 1}\neval: {}")
    True
    """
    data = mapping_of(text)
    if data is None or not isinstance(data.get("train"), Mapping) or "micro_batch_size" not in data["train"]:
        return False
    return any(name in data for name in ("checkpoint_dir", "model_name", "out_dir", "logger_name"))


def read_litgpt(path: Path | None, *, over: Sequence[Overrides] = ()) -> Reading:
    r"""Read a recipe.

    Parameters
    ----------
    path : Path or None
        None where a command line has it all.
    over : sequence of Overrides
        What stands above its values.

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "lora.yaml"
    ...     _ = path.write_text("checkpoint_dir: c/meta-llama/Meta-Llama-3-8B\nprecision: bf16-true\ndevices: 1\n"
    ...                         "lora_r: 32\ntrain: {micro_batch_size: 1, global_batch_size: 8, max_seq_length: 512}")
    ...     fields = read_litgpt(path).settings
    >>> fields["model"], fields["training.lora"], fields["training.param_dtype"]
    ('meta-llama/Meta-Llama-3-8B', {'rank': 32, 'targets': ['q_proj', 'v_proj']}, 'bf16')
    """
    ledger = Ledger(overridden(path, over))
    pretraining = "checkpoint_dir" not in ledger.data
    word = ledger.text("precision") or "bf16-mixed"  # get_default_supported_precision(training=True)
    if word.lower() not in LIGHTNING:
        ledger.refuse("precision", "is not simulated", allowed=", ".join(LIGHTNING))
    precision, stored = LIGHTNING[word.lower()]
    sizes = _SIZES[pretraining] if path is None else (None, None)
    micro, total = (
        _size(ledger, f"train.{name}_batch_size", default)
        for name, default in zip(("micro", "global"), sizes, strict=True)
    )
    nodes, each = ledger.integer("num_nodes", least=1), ledger.integer("devices", least=1)
    kept, own = _optimizer(ledger, fused=pretraining)
    preset = "compile" if pretraining else "flash"
    settings: dict[str, Any] = {
        "model": _model(ledger),
        "training.sequence_length": _length(ledger, pretraining),
        "training.micro_batch_size": micro,
        **_steps(ledger, micro, total, (each or 0) * (nodes or 1)),
        "training.precision": precision,
        "training.optimizer": kept,
        "training.dropout": 0.0,
        "cluster.nodes": nodes,
        "software": {"preset": preset, "optimizer": own} if own else preset,
    }
    if ledger.flag("train.tie_embeddings"):
        settings["model.tied_embeddings"] = True
    if stored:
        settings |= dict.fromkeys(("training.param_dtype", "training.grad_dtype"), precision)
        settings["training.master_dtype"] = "none"
        ledger.note(f"precision {word}: the moments are in {precision} there and in fp32 here")
    if ledger.raw("lora_r") is not None:
        targets = [name for key, names in _ADAPTED.items() if _adapted(ledger, key) for name in names]
        if ledger.flag("lora_head"):
            ledger.note("adapters on lm_head are not simulated")
        settings["training.lora"] = {"rank": ledger.integer("lora_r", least=1), "targets": targets or ["q_proj"]}
    quantize = ledger.text("quantize")
    if quantize:
        quantized(ledger, 8 if "8" in quantize else 4)
    gpus = each * (nodes or 1) if each else None
    if quantize and gpus is not None and gpus > 1:
        problem = "LitGPT: Quantization is currently not supported for multi-GPU training"
        ledger.refuse("quantize", problem, fix="set devices: 1 and num_nodes: 1, or leave it out")
    if gpus is None or gpus > 1:
        sharded = "fsdp" if "training.lora" in settings else "fsdp1"  # litgpt/finetune/lora.py, parallelize_fn
        settings["parallel.data_parallel"] = "hsdp" if pretraining else sharded
        if not pretraining:
            settings["training.recompute"] = "full"
    ledger.idle(*_IDLE)
    return ledger.reading(KIND, settings, gpus=gpus)


def _optimizer(ledger: Ledger, *, fused: bool) -> tuple[str | None, str | None]:
    """Return the optimizer, a name or a class, and its kernels: of torch.optim those that pretraining asks for."""
    key = "optimizer.class_path" if isinstance(ledger.raw("optimizer"), Mapping) else "optimizer"
    name = ledger.text(key)
    kept = None if name is None else str(optimizer(name.rpartition(".")[2], ledger, key)["training.optimizer"])
    if kept == "adam8bit":
        return kept, None
    if "galore" in (name or "").lower():  # jiaweizzhao/GaLore galore_torch/adamw.py updates tensor by tensor
        return kept, "for_loop"
    if kept == "sgd" and not ledger.number("optimizer.init_args.momentum"):
        ledger.note(f"{key}: sgd keeps nothing there without momentum; here it keeps one, 4 bytes a parameter")
    if ledger.flag("optimizer.init_args.fused") or fused:
        return kept, "fused"
    return kept, "for_loop" if ledger.flag("optimizer.init_args.foreach") is False else "foreach"


def _steps(ledger: Ledger, micro: int | None, total: int | None, ranks: int) -> dict[str, Any]:
    """Return the batch as LitGPT rounds it down (litgpt/args.py, TrainArgs.gradient_accumulation_iters)."""
    if not (micro and total and ranks) or total % (micro * ranks) == 0:
        return {"training.global_batch_size": total}
    steps = total // ranks // micro
    if not steps:
        problem = f"is less than one micro-batch of {micro} for each of {ranks} devices"
        ledger.refuse("train.global_batch_size", problem, allowed=f"at least {micro * ranks}")
    ledger.note(
        f"train.global_batch_size: {total} // {ranks} devices // micro-batches of {micro} is {steps}, so "
        f"that a step has {steps * ranks * micro} sequences in LitGPT"
    )
    return {"training.gradient_accumulation": steps}


def _size(ledger: Ledger, key: str, default: int | None) -> int | None:
    given = ledger.integer(key, least=1)
    if given is None and default is not None:
        ledger.note(f"{key} is left out: {default}, LitGPT's default")
    return given or default


def _adapted(ledger: Ledger, key: str) -> bool:
    given = ledger.flag(key)
    return key in _ON if given is None else given


def _length(ledger: Ledger, pretraining: bool) -> int | None:
    """Return the tokens of a sequence: in pretraining all that the model takes, unless told otherwise."""
    keys = ("train.max_seq_length", *(("model.block_size", "model_config.block_size") if pretraining else ()))
    return next((length for key in keys if (length := ledger.integer(key, least=1))), None)


def _model(ledger: Ledger) -> Any:
    for block in ("model", "model_config"):
        if isinstance(ledger.raw(block), Mapping) and "n_embd" in ledger.data[block]:
            return litgpt_model(ledger, f"{block}.")
    named = ledger.text("model_name") or ledger.text("model.name")
    if named is not None:
        return named
    folder = ledger.text("checkpoint_dir")
    return None if folder is None else "/".join(Path(folder).parts[-2:])
