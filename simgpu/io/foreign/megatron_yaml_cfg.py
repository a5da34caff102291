"""Megatron's ``--yaml-cfg``: arguments in a YAML file, those of the model and of its division in blocks of their own.

Names, and which goes before which: NVIDIA/Megatron-LM megatron/training/yaml_arguments.py (validate_yaml,
core_transformer_config_from_yaml); an example: examples/gpt3/gpt_config.yaml. Arguments of the command line count for
nothing beside it (load_yaml).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.document import mapping_of, read_document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.megatron_arguments import MegatronArguments
from simgpu.io.foreign.megatron_idle import IDLE
from simgpu.io.foreign.megatron_not_simulated import OVERLAPS
from simgpu.io.foreign.megatron_run import megatron_settings
from simgpu.io.foreign.reading import Reading

KIND: Final = "megatron-yaml-cfg"
_BLOCKS: Final = ("model_parallel", "language_model")
"""The later of them counts where several have an argument."""
_ACTIVATIONS: Final = {"swiglu": "swiglu", "squaredrelu": "squared-relu", "gelu": ""}
_RENAMED: Final = {"num-moe-experts": "num-experts", "fp8": "fp8-format", "vocab-extra-ids": "extra-vocab-size"}
_POSITIVE: Final = {
    "add_bias_linear": "disable-bias-linear",
    "async_tensor_model_parallel_allreduce": "no-async-tensor-model-parallel-allreduce",
    "fp8_wgrad": "no-fp8-wgrad",
    "overlap_p2p_comm": "no-overlap-p2p-communication",
    "scatter_gather_tensors_in_pipeline": "no-scatter-gather-tensors-in-pipeline",
}
"""Switches that the command line has the other way round."""
_OVERLAPS: Final = {f"tp_comm_{name}": f"disable-tp-comm-{name.replace('_', '-')}" for name in OVERLAPS}
"""As these, of parts of tp_comm_overlap."""
_FUSIONS: Final = {
    "no-bias-gelu-fusion": "language_model.bias_activation_fusion",
    "no-bias-swiglu-fusion": "language_model.bias_swiglu_fusion",
    "no-bias-dropout-fusion": "language_model.bias_dropout_fusion",
    "no-masked-softmax-fusion": "language_model.masked_softmax_fusion",
    "no-rope-fusion": "language_model.apply_rope_fusion",
    "no-persist-layer-norm": "language_model.persist_layer_norm",
    "no-gradient-accumulation-fusion": "model_parallel.gradient_accumulation_fusion",
}
"""Those that are off where the file leaves them out (TransformerConfig of megatron/core)."""
_LANGUAGE_MODEL: Final = (
    "apply_residual_connection_post_layernorm", "layernorm_zero_centered_gamma", "bias_activation_fusion",
    "bias_swiglu_fusion", "bias_gelu_fusion", "bias_dropout_fusion", "masked_softmax_fusion", "persist_layer_norm",
    "memory_efficient_layer_norm", "apply_rope_fusion", "init_method", "embedding_init_method",
    "output_layer_init_method", "fp8_margin", "fp8_interval", "fp8_amax_history_len", "fp8_amax_compute_algo",
    "fp8_wgrad", "clone_scatter_output_in_embedding", "gated_linear_unit", "moe_token_dropping",
)  # fmt: skip
_MODEL_PARALLEL: Final = (
    "virtual_pipeline_model_parallel_size", "perform_initialization", "params_dtype", "timers",
    "gradient_accumulation_fusion", "async_tensor_model_parallel_allreduce", "tp_comm_split_ag", "tp_comm_atomic_ag",
    "tp_comm_split_rs", "tp_comm_atomic_rs", "tp_comm_bulk_wgrad", "tp_comm_bulk_dgrad", "tp_comm_overlap_ag",
    "tp_comm_overlap_rs", "tp_comm_overlap_rs_dgrad", "finalize_model_grads_func", "grad_scale_func", "no_sync_func",
    "grad_sync_func", "param_sync_func", "pipeline_dtype", "enable_autocast", "autocast_dtype",
    "variable_seq_lengths", "num_microbatches_with_partial_activation_checkpoints", "batch_p2p_comm",
    "batch_p2p_sync", "use_ring_exchange_p2p", "deallocate_pipeline_outputs", "pipeline_model_parallel_split_rank",
    "cpu_offloading_num_layers", "cpu_offloading_weights", "cpu_offloading_activations", "_cpu_offloading_context",
    "barrier_with_L1_time",
)  # fmt: skip
_OUTSIDE: Final = (
    "check_for_nan_in_loss_and_grad", "add_position_embedding", "decoder_seq_length", "retriever_seq_length",
    "sample_rate", "mask_prob", "short_seq_prob", "data_parallel_random_init", "delay_grad_reduce",
    "delay_param_gather", "lazy_mpu_init", "standalone_embedding_stage", "adlr_autoresume",
    "adlr_autoresume_interval", "tp_comm_overlap_cfg", "exit_on_missing_checkpoint", "bert_binary_head",
    "log_loss_scale_to_tensorboard", "manual_gc_eval", "group_query_attention", "swiglu", "squared_relu",
    "num_experts",
)  # fmt: skip
_IDLE: Final = (
    *(f"language_model.{name}" for name in _LANGUAGE_MODEL), *(f"model_parallel.{name}" for name in _MODEL_PARALLEL),
    *_OUTSIDE,
)  # fmt: skip
"""Names of examples/gpt3/gpt_config.yaml and of the classes TransformerConfig and ModelParallelConfig."""


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a text is such a file.

    Examples
    --------
    >>> recognise(Path("gpt.yaml"), "language_model:\n  num_layers: 24\nmodel_parallel:\n  bf16: true")
    True
    """
    if not all(name in text for name in _BLOCKS):
        return False
    data = mapping_of(text)
    return data is not None and all(isinstance(data.get(name), Mapping) for name in _BLOCKS)


def read_megatron_yaml_cfg(path: Path) -> Reading:
    r"""Read the arguments.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        When Megatron refuses the arguments, or they ask for what is not simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "gpt.yaml"
    ...     _ = path.write_text("language_model: {num_layers: 24, hidden_size: 1024, num_attention_heads: 16, "
    ...                         "activation_func: swiglu}\nmodel_parallel: {tensor_model_parallel_size: 2, bf16: 1}\n"
    ...                         "micro_batch_size: 2\nglobal_batch_size: 128\nseq_length: 4096\nvocab_size: 50257\n")
    ...     fields = read_megatron_yaml_cfg(path).settings
    >>> fields["model"]["mlp"], fields["parallel.tp"], fields["training.precision"]
    ('swiglu', 2, 'bf16')
    """
    ledger = Ledger(read_document(path))
    settings = megatron_settings(_arguments(ledger))
    if settings.get("parallel.tp") in (None, 1):
        settings["parallel.sequence_parallel"] = None  # validate_yaml switches it off
    names = [name.replace("-", "_") for name in IDLE]
    ledger.idle(*names, *(f"{block}.{name}" for block in _BLOCKS for name in names), *_IDLE)
    return ledger.reading(KIND, settings)


def _arguments(ledger: Ledger) -> MegatronArguments:
    """Give the keys the command line's names."""
    keys: dict[str, str] = {}
    values: dict[str, Any] = {}
    overlap = ledger.flag("model_parallel.tp_comm_overlap")
    for block in ("", *_BLOCKS):
        for name in ledger.data if not block else ledger.data[block]:
            key = f"{block}.{name}" if block else str(name)
            if name in _BLOCKS or ledger.raw(key) is None:
                continue
            argument = str(name).replace("_", "-")
            keys[_RENAMED.get(argument, argument)] = key
            other = _POSITIVE.get(name) or (_OVERLAPS.get(name) if overlap else None)
            if other is not None:
                keys[other], values[other] = key, not ledger.flag(key)
    for argument, key in _FUSIONS.items():
        keys[argument], values[argument] = key, not ledger.flag(key)
    if ledger.flag("language_model.add_bias_linear") is not False:
        values["no-bias-gelu-fusion"] = True  # core_transformer_config_from_yaml
    if "fp8-format" not in keys:
        keys.pop("no-fp8-wgrad", None)
    _activation(ledger, keys, values)
    keys.pop("group-query-attention", None)  # the number of groups alone counts (TransformerConfig)
    if "num-query-groups" in keys:
        keys["group-query-attention"], values["group-query-attention"] = keys["num-query-groups"], True
    return MegatronArguments(ledger, keys, values)


def _activation(ledger: Ledger, keys: dict[str, str], values: dict[str, Any]) -> None:
    key = "language_model.activation_func"
    word = ledger.text(key)
    if ledger.flag("language_model.gated_linear_unit") and word in (None, "gelu"):
        keys["geglu"], values["geglu"] = "language_model.gated_linear_unit", True
    if word is None:
        return
    if word not in _ACTIVATIONS:
        ledger.refuse(key, f"{word} is not a supported activation function", allowed=", ".join(_ACTIVATIONS))
    for name in filter(None, _ACTIVATIONS.values()):
        keys.pop(name, None)
        if _ACTIVATIONS[word] == name:
            keys[name], values[name] = key, True
