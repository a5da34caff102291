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
from simgpu.io.foreign.megatron_run import megatron_settings
from simgpu.io.foreign.reading import Reading

KIND: Final = "megatron-yaml-cfg"
_BLOCKS: Final = ("model_parallel", "language_model")
"""The later of them counts where several have an argument."""
_ACTIVATIONS: Final = {"swiglu": "swiglu", "squaredrelu": "squared-relu", "gelu": ""}
_RENAMED: Final = {"num-moe-experts": "num-experts", "fp8": "fp8-format", "vocab-extra-ids": "extra-vocab-size"}
_POSITIVE: Final = {
    "add_bias_linear": "disable-bias-linear",
    "overlap_p2p_comm": "no-overlap-p2p-communication",
    "scatter_gather_tensors_in_pipeline": "no-scatter-gather-tensors-in-pipeline",
}
"""Switches that the command line has the other way round."""
_IDLE: Final = (
    "language_model.apply_residual_connection_post_layernorm", "language_model.layernorm_zero_centered_gamma",
    "language_model.bias_*_fusion", "language_model.masked_softmax_fusion", "language_model.persist_layer_norm",
    "language_model.memory_efficient_layer_norm", "language_model.apply_rope_fusion", "language_model.init_method",
    "language_model.embedding_init_method", "language_model.output_layer_init_method", "language_model.fp8_*",
    "language_model.clone_scatter_output_in_embedding", "language_model.gated_linear_unit",
    "language_model.moe_token_dropping", "language_model.fp32_residual_connection",
    "language_model.distribute_saved_activations", "model_parallel.virtual_pipeline_model_parallel_size",
    "model_parallel.perform_initialization", "model_parallel.params_dtype", "model_parallel.timers",
    "model_parallel.gradient_accumulation_fusion", "model_parallel.async_tensor_model_parallel_allreduce",
    "model_parallel.tp_comm_*", "model_parallel.*_func", "model_parallel.pipeline_dtype",
    "model_parallel.enable_autocast", "model_parallel.autocast_dtype", "model_parallel.variable_seq_lengths",
    "model_parallel.num_microbatches_with_partial_activation_checkpoints", "model_parallel.batch_p2p_*",
    "model_parallel.use_ring_exchange_p2p", "model_parallel.deallocate_pipeline_outputs",
    "model_parallel.pipeline_model_parallel_split_rank", "model_parallel.cpu_offloading*",
    "model_parallel._cpu_offloading_context", "model_parallel.barrier_with_L1_time", "check_for_nan_in_loss_and_grad",
    "add_position_embedding", "decoder_seq_length", "retriever_seq_length", "sample_rate", "mask_prob",
    "short_seq_prob", "data_parallel_random_init", "delay_grad_reduce", "delay_param_gather", "lazy_mpu_init",
    "standalone_embedding_stage", "adlr_autoresume*", "fp16_lm_cross_entropy", "tp_comm_overlap_cfg",
    "exit_on_missing_checkpoint", "tensorboard_*", "group_query_attention", "swiglu", "squared_relu", "num_experts",
)  # fmt: skip


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
    for block in ("", *_BLOCKS):
        for name in ledger.data if not block else ledger.data[block]:
            key = f"{block}.{name}" if block else str(name)
            if name in _BLOCKS or ledger.raw(key) is None:
                continue
            argument = str(name).replace("_", "-")
            keys[_RENAMED.get(argument, argument)] = key
            if name in _POSITIVE:
                keys[_POSITIVE[name]], values[_POSITIVE[name]] = key, not ledger.flag(key)
    _activation(ledger, keys, values)
    keys.pop("group-query-attention", None)  # the number of groups alone counts (TransformerConfig)
    if "num-query-groups" in keys:
        keys["group-query-attention"], values["group-query-attention"] = keys["num-query-groups"], True
    return MegatronArguments(ledger, keys, values)


def _activation(ledger: Ledger, keys: dict[str, str], values: dict[str, Any]) -> None:
    key = "language_model.activation_func"
    word = ledger.text(key)
    if word is None:
        return
    if word not in _ACTIVATIONS:
        ledger.refuse(key, f"{word} is not a supported activation function", allowed=", ".join(_ACTIVATIONS))
    for name in filter(None, _ACTIVATIONS.values()):
        keys.pop(name, None)
        if _ACTIVATIONS[word] == name:
            keys[name], values[name] = key, True
