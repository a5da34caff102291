"""A model as Megatron's arguments describe it.

Names: NVIDIA/Megatron-LM ``megatron/training/arguments.py``; what `simgpu.io.foreign.megatron_model` reads.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from simgpu.io.foreign.vocabulary import DIVISIBLE_BY
from simgpu.io.launch.job import Job, cannot
from simgpu.workload.model import Model

_MLPS: Final[dict[str, list[str]]] = {
    "swiglu": ["--swiglu"],
    "geglu": ["--quick-geglu"],
    "gelu": [],
    "relu": ["--squared-relu"],
}
_NORMS: Final = {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}
_POSITIONS: Final = {"rope": "rope", "learned": "learned_absolute", "none": "none"}
_NO_ARGUMENT: Final = {
    "branch_norms": "norms behind attention and MLP",
    "joint_qk_norm": "norms over all heads together",
    "output_gate": "a gate on the attention's output",
    "delta": "layers of linear attention",
}
"""What a model may have that no argument asks for."""


def model_rows(job: Job) -> list[list[str]]:
    """Return the arguments of a model, a row per subject.

    Parameters
    ----------
    job : Job

    Returns
    -------
    list of list of str

    Raises
    ------
    ScenarioError
        For a model that ``pretrain_gpt.py`` cannot build.

    Examples
    --------
    >>> from simgpu.parallel.strategy import Strategy
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> job = Job(title="t", nodes=1, gpus=1, model=bundled_model("llama-3-8b"), strategy=Strategy(),
    ...           training=Training(sequence_length=8192, micro_batch_size=1, accumulation=1))
    >>> for row in model_rows(job)[:3]:
    ...     print(*row)
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --group-query-attention --num-query-groups 8
    --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope
    """
    model = job.model
    if not isinstance(model, Model) or model.post_norm or not model.causal:
        raise cannot("model", model.name, "is no decoder, which is what pretrain_gpt.py trains")
    if model.parallel_residual:
        raise cannot("model.parallel_residual", True, "has no argument of Megatron", allowed="false")
    for field in _NO_ARGUMENT:
        if getattr(model, field):
            raise cannot("model", model.name, f"has {_NO_ARGUMENT[field]}, which Megatron's arguments do not build")
    if model.window_layers is not None and len(model.window_layers) not in (0, model.layers):
        raise cannot("model", model.name, "has windows in some layers, and Megatron's argument is about all of them")
    if model.mlp_bias != model.output_bias or (model.mlp_bias and not model.qkv_bias):
        problem = "differs from model.output_bias: Megatron has one switch for both"
        raise cannot("model.mlp_bias", model.mlp_bias, problem, allowed=str(model.output_bias).lower())
    length = job.training.sequence_length
    return [
        [
            "--num-layers", str(model.layers), "--hidden-size", str(model.hidden),
            "--ffn-hidden-size", str(model.ffn), "--num-attention-heads", str(model.heads),
        ],
        *_attention(model),
        [
            "--seq-length", str(length), "--max-position-embeddings", str(max(model.max_positions, length)),
            "--position-embedding-type", _POSITIONS[model.positions],
        ],
        ["--normalization", _NORMS[model.norm], *_MLPS[model.mlp], *_biases(model)],
        *([] if model.tied_embeddings else [["--untie-embeddings-and-output-weights"]]),
        *_experts(model),
        _vocabulary(model.vocab, job.strategy.tp),
    ]  # fmt: skip


def _attention(model: Model) -> list[list[str]]:
    latent = model.latent
    if latent is not None:
        rows = [["--multi-latent-attention", "--kv-lora-rank", str(latent.kv_rank)]]
        if latent.query_rank is not None:
            rows[0] += ["--q-lora-rank", str(latent.query_rank)]
        dims = ["--qk-head-dim", str(latent.nope_dim), "--qk-pos-emb-head-dim", str(latent.rope_dim)]
        return [*rows, [*dims, "--v-head-dim", str(latent.value_dim)]]
    row = []
    if model.kv_heads != model.heads:
        row += ["--group-query-attention", "--num-query-groups", str(model.kv_heads)]
    if model.head_dim * model.heads != model.hidden:
        row += ["--kv-channels", str(model.head_dim)]
    if model.qk_norm:
        row.append("--qk-layernorm")
    if model.sliding_window is not None:
        row += ["--window-size", f"({model.sliding_window - 1},0)"]
    return [row] if row else []


def _biases(model: Model) -> list[str]:
    if model.output_bias:
        return []
    return ["--disable-bias-linear", *(["--add-qkv-bias"] if model.qkv_bias else [])]


def _experts(model: Model) -> list[list[str]]:
    own = model.experts
    if own is None:
        return []
    if own.shared_gate:
        raise cannot("model", model.name, "has a gate on its shared expert, which Megatron's arguments do not build")
    rows = [
        [
            "--num-experts", str(own.count), "--moe-router-topk", str(own.active),
            "--moe-ffn-hidden-size", str(own.ffn),
        ],
        ["--moe-grouped-gemm", "--moe-token-dispatcher-type", "alltoall", "--moe-router-load-balancing-type", "none"],
    ]  # fmt: skip
    if own.shared_ffn:
        rows.append(["--moe-shared-expert-intermediate-size", str(own.shared_ffn)])
    if model.dense_layers:
        kinds = [int(layer not in model.dense_layers) for layer in range(model.layers)]
        pattern = "+".join(f"[{kind}]*{len(list(run))}" for kind, run in groupby(kinds))
        rows.append(["--moe-layer-freq", f"({pattern})"])
    return rows


def _vocabulary(size: int, tp: int) -> list[str]:
    """Return arguments after which the padded vocabulary is the model's, with a tokenizer of numbers for a first run.

    References
    ----------
    NVIDIA/Megatron-LM megatron/core/tokenizers: NullTokenizer has one token, that of the end, beside --vocab-size.
    """
    if size % tp:
        problem = f"is no multiple of tp = {tp}, to which Megatron pads it"
        raise cannot("model.vocab", size, problem, fix=f"set model.vocab to {-(-size // tp) * tp}")
    divisor = DIVISIBLE_BY
    while size // tp % divisor:
        divisor //= 2
    found = ["--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", str(size - 1)]
    return [*found, "--make-vocab-size-divisible-by", str(divisor)]
