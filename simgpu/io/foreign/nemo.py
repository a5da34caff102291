"""NeMo's training recipes: Megatron under PyTorch Lightning, in Hydra's YAML.

Names and defaults: NVIDIA/NeMo examples/nlp/language_modeling/conf/megatron_gpt_config.yaml and
nemo/collections/nlp/models/language_modeling/megatron_gpt_model.py; NVIDIA/NeMo-Framework-Launcher conf/training.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.adapters import quantized
from simgpu.io.foreign.document import Document, mapping_of, read_document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.megatron_arguments import MegatronArguments
from simgpu.io.foreign.megatron_not_simulated import OVERLAPS
from simgpu.io.foreign.megatron_run import megatron_settings
from simgpu.io.foreign.nemo_gradients import FUSED_ADAM, SHARDED, accumulates, apex_bucket, chunk_mib
from simgpu.io.foreign.nemo_keys import IDLE
from simgpu.io.foreign.nemo_models import other_model
from simgpu.io.foreign.nemo_recompute import core_layers
from simgpu.io.foreign.nemo_values import resolve
from simgpu.io.foreign.number_formats import LIGHTNING
from simgpu.io.foreign.reading import Reading

KIND: Final = "nemo"
_RENAMED: Final = {
    "num-layers-per-virtual-pipeline-stage": "",
    "num-virtual-stages-per-pipeline-rank": "virtual_pipeline_model_parallel_size",
    "recompute-granularity": "activations_checkpoint_granularity", "recompute-method": "activations_checkpoint_method",
    "recompute-num-layers": "activations_checkpoint_num_layers", "num-experts": "num_moe_experts",
    "max-position-embeddings": "max_position_embeddings",
    "decoder-first-pipeline-num-layers": "num_layers_in_first_pipeline_stage",
    "decoder-last-pipeline-num-layers": "num_layers_in_last_pipeline_stage", "tp-comm-overlap": "ub_tp_comm_overlap",
    "num-microbatches-with-partial-activation-checkpoints": "num_micro_batches_with_partial_activation_checkpoints",
    "use-sharp": "sharp", "tokenizer-type": "tokenizer.type", "tokenizer-model": "tokenizer.model",
    "vocab-file": "tokenizer.vocab_file",
}  # fmt: skip
"""Keys of the block ``model`` for Megatron's arguments whose names are not the same."""
_SAME: Final = (
    "num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "num-query-groups", "kv-channels",
    "encoder-seq-length", "micro-batch-size", "global-batch-size", "rampup-batch-size", "tensor-model-parallel-size",
    "pipeline-model-parallel-size", "context-parallel-size", "expert-model-parallel-size",
    "expert-tensor-parallel-size",
    "sequence-parallel", "use-tp-pp-dp-mapping", "hidden-dropout", "attention-dropout", "normalization",
    "position-embedding-type", "make-vocab-size-divisible-by", "moe-router-topk", "moe-ffn-hidden-size",
    "moe-shared-expert-intermediate-size", "moe-expert-capacity-factor", "moe-token-dispatcher-type", "window-size",
    "multi-latent-attention", "cpu-offloading", "use-flash-attention", "mtp-num-layers", "openai-gelu",
    "moe-grouped-gemm", "moe-extended-tp", "moe-pad-expert-input-to-capacity",
    "deterministic-mode", "fp16-lm-cross-entropy", "fp8-dot-product-attention", "fp8-multi-head-attention",
    "activations-checkpoint-layers-per-pipeline",
    "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split", "qk-layernorm",
)  # fmt: skip
_GATED: Final = {
    **dict.fromkeys(("swiglu", "fast-swiglu"), "swiglu"), **dict.fromkeys(("geglu", "fast-geglu"), "geglu"),
    **dict.fromkeys(("squared-relu", "relu"), "squared-relu"), **dict.fromkeys(("reglu", "fast-reglu"), "swiglu"),
    "gelu": "",
}  # fmt: skip
_REDUCED: Final = {
    **dict.fromkeys(("32", "fp32", "float32", "32-true"), "fp32"),
    **dict.fromkeys(("16", "fp16", "16-mixed"), "fp16"), **dict.fromkeys(("bf16", "bf16-mixed", "bfloat16"), "bf16"),
}  # fmt: skip
_QKV: Final = ("q_proj", "k_proj", "v_proj")
_MLP: Final = ("gate_proj", "up_proj", "down_proj")
_ADAPTED: Final = {
    "attention_qkv": _QKV, "attention_dense": ("o_proj",), "attention": (*_QKV, "o_proj"),
    "all": (*_QKV, "o_proj", *_MLP), "mlp_fc1": _MLP[:2], "mlp_fc2": _MLP[2:], "mlp": _MLP,
}  # fmt: skip
"""Projections by the names of NeMo's adapters."""
_FUSIONS: Final = {
    "no-bias-gelu-fusion": ("bias_activation_fusion", True), "no-bias-swiglu-fusion": ("bias_activation_fusion", True),
    "no-bias-dropout-fusion": ("bias_dropout_add_fusion", True), "no-rope-fusion": ("apply_rope_fusion", True),
    "no-masked-softmax-fusion": ("masked_softmax_fusion", True), "no-persist-layer-norm": ("persist_layer_norm", False),
}  # fmt: skip
"""Keys and defaults of what Megatron's switches turn off."""


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a text is a recipe of NeMo.

    Examples
    --------
    >>> recognise(Path("gpt3.yaml"), "trainer: {devices: 8}\nmodel: {tensor_model_parallel_size: 2}")
    True
    """
    if "tensor_model_parallel_size" not in text and "mcore_gpt" not in text:
        return False
    data = mapping_of(text)
    return data is not None and isinstance(data.get("model"), Mapping) and "trainer" in data


def read_nemo(path: Path) -> Reading:
    r"""Read a recipe.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        When Megatron refuses the recipe, or it asks for what is not simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "gpt.yaml"
    ...     _ = path.write_text("trainer: {devices: 8, num_nodes: 2, precision: bf16}\nmodel:\n  num_layers: 12\n"
    ...                         "  hidden_size: 768\n  num_attention_heads: 12\n  micro_batch_size: 4\n"
    ...                         "  ffn_hidden_size: ${multiply:4, ${.hidden_size}}\n  encoder_seq_length: 2048\n")
    ...     reading = read_nemo(path)
    >>> reading.gpus, reading.settings["model"]["ffn"]
    (16, 3072)
    """
    document = read_document(path, once=True)
    data = resolve(document.data)
    ledger = Ledger(Document(source=document.source, data=data, lines=document.lines))
    arguments = _arguments(ledger)
    _refuse(ledger)
    bert = "bert" in str(data.get("name", "")).lower() or "masked_lm_prob" in (data["model"].get("data") or {})
    settings = megatron_settings(arguments, bert=bert)
    if settings.get("parallel.data_parallel") == "ddp" and (chunk := chunk_mib(ledger)) is not None:
        settings["ddp.bucket_cap_mb"] = chunk
    settings |= core_layers(ledger, settings)
    settings |= _peft(ledger)
    _sequence(ledger, settings)
    settings |= _fsdp(ledger) if ledger.flag("model.fsdp") else _formats(ledger, settings)
    _note_left_out(ledger)
    nodes = ledger.integer("trainer.num_nodes", least=1)
    each = ledger.integer("trainer.devices", least=-1) or ledger.integer("trainer.gpus", least=-1)  # the older name
    gpus = each * (nodes or 1) if each is not None and each > 0 else None
    settings["cluster.nodes"] = nodes
    ledger.idle(*IDLE)
    return ledger.reading(KIND, settings, gpus=gpus)


def _formats(ledger: Ledger, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what weights and gradients are in where Megatron's own layers join the replicas."""
    autocast = ledger.flag("model.megatron_amp_O2") is False and settings["training.precision"] in ("bf16", "fp16")
    found: dict[str, Any] = {"training.param_dtype": "fp32", "training.master_dtype": None} if autocast else {}
    if ledger.text("model.optim.grad_sync_dtype") in ("bf16", "16"):
        found |= {"training.grad_dtype": "fp32" if autocast else "bf16", "training.reduce_dtype": "bf16"}
    elif autocast:
        found |= dict.fromkeys(("training.grad_dtype", "training.reduce_dtype"), "fp32")
    return found


def _note_left_out(ledger: Ledger) -> None:
    for name in ("defer_embedding_wgrad_compute", "fp32_residual_connection", "fp8_params"):
        if ledger.flag(f"model.{name}"):
            ledger.note(f"model.{name} is not simulated")
    for name in ("store_param_remainders", "with_scaled_states"):  # apex distributed_fused_adam.py
        if ledger.flag(f"model.optim.{name}"):
            ledger.note(f"model.optim.{name} is not simulated: masters and moments are whole and in fp32 here")
    if (ledger.number("model.ffn_dropout") or 0) > 0:
        ledger.note("model.ffn_dropout is not simulated: nothing is dropped inside the MLP here")
    every = ledger.integer("model.moe_frequency")
    if every is not None and every > 1 and (ledger.integer("model.num_moe_experts") or 1) > 1:
        ledger.note(
            f"model.moe_frequency {every}: every layer has experts here; say which: --set model.dense_layers=[...]"
        )


def _arguments(ledger: Ledger) -> MegatronArguments:
    """Give NeMo's keys Megatron's names."""
    keys = {name: f"model.{name.replace('-', '_')}" for name in _SAME}
    keys |= {name: f"model.{key}" for name, key in _RENAMED.items() if key}
    values: dict[str, Any] = {}

    def switch(name: str, key: str, value: Any) -> None:
        keys[name], values[name] = f"model.{key}", value

    activation = (ledger.text("model.activation") or "gelu").lower()
    if activation not in _GATED:
        ledger.refuse("model.activation", "is not simulated", allowed=", ".join(_GATED))
    if _GATED[activation]:
        switch(_GATED[activation], "activation", True)
    if "reglu" in activation:
        ledger.note("model.activation reglu is simulated as swiglu, which has the same matrices")
    switch("disable-bias-linear", "bias", ledger.flag("model.bias") is False)
    untied = ledger.flag("model.share_embeddings_and_output_weights") is False
    switch("untie-embeddings-and-output-weights", "share_embeddings_and_output_weights", untied)
    switch("no-overlap-p2p-communication", "overlap_p2p_comm", not ledger.flag("model.overlap_p2p_comm"))
    switch("group-query-attention", "num_query_groups", ledger.get("model.num_query_groups") is not None)
    switch("cross-entropy-loss-fusion", "cross_entropy_loss_fusion", ledger.flag("model.cross_entropy_loss_fusion"))
    for name, (key, default) in _FUSIONS.items():
        fused = ledger.flag(f"model.{key}")
        switch(name, key, not (default if fused is None else fused))
    switch("no-gradient-accumulation-fusion", "gradient_accumulation_fusion", not accumulates(ledger))
    fp8 = ledger.flag("model.fp8")
    switch("fp8-format", "fp8", "hybrid" if fp8 else None)
    switch("no-fp8-wgrad", "fp8_wgrad", bool(fp8) and ledger.flag("model.fp8_wgrad") is False)
    switch(
        "transformer-impl",
        "transformer_engine",
        "transformer_engine" if ledger.flag("model.transformer_engine") else "local",
    )
    if not ledger.flag("model.transformer_engine") and ledger.flag("model.use_flash_attention"):
        switch("use-flash-attn", "use_flash_attention", True)
    word = str(ledger.get("trainer.precision") or ledger.get("model.precision") or "32").lower()
    if word not in LIGHTNING or LIGHTNING[word][1] or LIGHTNING[word][0] == "fp8":  # torch_dtype_from_precision
        allowed = "bf16, bf16-mixed, 16, 16-mixed, 32, 32-true"
        ledger.refuse("trainer.precision", "NeMo finds no format in it for Megatron's models", allowed=allowed)
    if LIGHTNING[word][0] != "fp32":
        keys[LIGHTNING[word][0]], values[LIGHTNING[word][0]] = "trainer.precision", True
    if "fp16" in keys and ledger.flag("model.apply_query_key_layer_scaling"):
        switch("apply-query-key-layer-scaling", "apply_query_key_layer_scaling", True)
    optimizer = ledger.text("model.optim.name") or FUSED_ADAM
    if optimizer in SHARDED:
        switch("use-distributed-optimizer", "optim.name", True)
        switch("overlap-grad-reduce", "optim.overlap_grad_sync", ledger.flag("model.optim.overlap_grad_sync") or False)
        switch(
            "overlap-param-gather", "optim.overlap_param_sync", ledger.flag("model.optim.overlap_param_sync") or False
        )
        keys["ddp-bucket-size"] = "model.optim.ddp_bucket_size"
        if optimizer == SHARDED[1]:
            values["ddp-bucket-size"] = apex_bucket(ledger)
        elif ledger.get("model.optim.bucket_cap_mb") is not None:
            ledger.note(f"model.optim.bucket_cap_mb has no effect with {optimizer}: its buckets are of ddp_bucket_size")
        if ledger.flag("model.optim.average_in_collective"):
            switch("ddp-average-in-collective", "optim.average_in_collective", True)
    elif "adam" not in optimizer:
        ledger.refuse("model.optim.name", "is not simulated", allowed=", ".join((*SHARDED, FUSED_ADAM)))
    for name in OVERLAPS if ledger.flag("model.ub_tp_comm_overlap") else ():
        if ledger.flag(f"model.tp_comm_{name}") is False:
            switch(f"disable-tp-comm-{name.replace('_', '-')}", f"tp_comm_{name}", True)
    if ledger.flag("model.enable_cuda_graph"):
        switch("enable-cuda-graph", "enable_cuda_graph", True)
    return MegatronArguments(ledger, keys, values)


def _refuse(ledger: Ledger) -> None:
    if ledger.text("model.transformer_block_type") not in (None, "pre_ln"):
        ledger.refuse("model.transformer_block_type", "is not simulated", allowed="pre_ln")
    found = other_model(ledger.data)
    if found is not None:
        ledger.refuse(found[0], f"is not simulated from NeMo's recipes: {found[1]}")


def _peft(ledger: Ledger) -> dict[str, Any]:
    """Read the adapters of ``megatron_gpt_finetuning_config.yaml``."""
    scheme = (ledger.text("model.peft.peft_scheme") or "none").lower()
    if scheme in ("none", "null"):
        return {}
    if scheme not in ("lora", "qlora"):
        ledger.refuse("model.peft.peft_scheme", "is not simulated", allowed="lora, qlora, null")
    if scheme == "qlora":
        quantized(ledger, 4)
    rank = ledger.integer("model.peft.lora_tuning.adapter_dim", least=1)
    if rank is None:
        ledger.refuse("model.peft.lora_tuning.adapter_dim", "is missing: the rank of the adapters")
    names = ledger.names("model.peft.lora_tuning.target_modules") or ["attention_qkv"]
    strange = sorted({*names} - {*_ADAPTED})
    if strange:
        ledger.refuse("model.peft.lora_tuning.target_modules", "are not known", allowed=", ".join(_ADAPTED))
    targets = [target for name in names for target in _ADAPTED[name]]
    return {"training.lora": {"rank": rank, "targets": list(dict.fromkeys(targets))}}


def _sequence(ledger: Ledger, settings: dict[str, Any]) -> None:
    """Take the sequence length of fine-tuning from its data, where the model has none."""
    if settings.get("training.sequence_length") is not None:
        return
    for key in ("model.data.train_ds.max_seq_length", "model.data.max_seq_length", "model.data.seq_length"):
        length = ledger.integer(key, least=1)
        if length is not None:
            settings["training.sequence_length"] = length
            ledger.open.pop("training.sequence_length", None)
            return


def _reduced(ledger: Ledger) -> str | None:
    """Return what FSDP reduces gradients in: fp32 unless the recipe says otherwise; that of the arithmetic for null."""
    key, model = "model.fsdp_grad_reduce_dtype", ledger.data.get("model")
    if isinstance(model, dict) and "fsdp_grad_reduce_dtype" not in model:
        return "fp32"
    word = ledger.get(key)
    if word is not None and str(word).lower() not in _REDUCED:
        ledger.refuse(key, "is no precision", allowed=", ".join(_REDUCED))
    return None if word is None else _REDUCED[str(word).lower()]


def _fsdp(ledger: Ledger) -> dict[str, Any]:
    """Return PyTorch's FSDP 1, under which NeMo sets megatron_amp_O2 to false (megatron_trainer_builder.py)."""
    words = {"full": True, "grad": False}
    strategy = ledger.choice("model.fsdp_sharding_strategy", {**words, "hybrid": "hybrid"})
    found: dict[str, Any] = {
        "parallel.data_parallel": "hsdp" if strategy == "hybrid" else "fsdp1",
        "training.param_dtype": "fp32", "training.master_dtype": None, "training.grad_dtype": None,
        "training.reduce_dtype": _reduced(ledger),
    }  # fmt: skip
    if strategy in words.values():
        found["fsdp.reshard_after_forward"] = strategy
    return found
