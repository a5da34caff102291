"""Where the decoders of the Llama line differ from each other, as their configuration classes have it.

Defaults: huggingface/transformers ``src/transformers/models/<family>/configuration_<family>.py``; for families that
are not part of it, ``configuration_*.py`` beside the model's own weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from simgpu.workload.huggingface_experts import DEEPSEEK_LINE
from simgpu.workload.reading import Reading
from simgpu.workload.scales import NONE, Scales


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family's defaults.

    Parameters
    ----------
    kv_heads : int or None
        Default when the key is absent; None: as many as heads. A null means heads.
    head_dim : int or None
        Default when the key is absent; None: hidden / heads.
    bias, mlp_bias : str or None
        Keys that decide on the biases of attention and of the MLP; ``biased`` is what they default to.
    qkv_bias : bool
        Query, key and value have biases whatever the key says.
    output_bias : bool
        The key decides for the attention's output too.
    qk_norm, joint_qk_norm, branch_norms : bool
        As `simgpu.workload.model.Model` has them; ``qk_norm_key`` may switch the first on.
    parallel : bool
        Attention and MLP may stand side by side behind one norm; ``use_parallel_residual`` decides where it is given.
    norm, act : str
    gated : bool
        Whether the MLP has a gate.
    tied : bool
        Default of ``tie_word_embeddings``.
    inner : str
        Key of the width of an MLP where it is not that of the experts.
    window : int or None, tokens
        Default of ``sliding_window``; None: it counts only where it is given.
    window_pattern : int or None
        Every so many-th layer has none; 1: every layer has one; None: the family knows no windows.
    window_switch : bool
        ``use_sliding_window`` turns it on, from layer ``max_window_layers``.
    whole_up_to : callable or None
        Reads up to which length every layer attends to everything; longer sequences are refused.
    scales : Scales
        Which tensors the code multiplies with a number.
    caps : bool or None
        ``final_logit_softcapping`` and ``attn_logit_softcapping`` are on or off by default; None: it knows neither.
    linear : bool
        All layers but every ``full_attention_interval``-th are linear attention, and attention has an output gate.
    """

    kv_heads: int | None = None
    head_dim: int | None = None
    bias: str | None = "attention_bias"
    biased: bool = False
    mlp_bias: str | None = None
    qkv_bias: bool = False
    output_bias: bool = True
    qk_norm: bool = False
    qk_norm_key: str | None = None
    joint_qk_norm: bool = False
    branch_norms: bool = False
    parallel: bool = False
    parallel_default: bool = True
    norm: str = "rmsnorm"
    act: str = "silu"
    gated: bool = True
    tied: bool = False
    inner: str = "intermediate_size"
    window: int | None = None
    window_pattern: int | None = None
    window_switch: bool = False
    whole_up_to: Callable[[Reading], int] | None = None
    scales: Scales = NONE
    caps: bool | None = None
    linear: bool = False


def _blocks_of_keys(reading: Reading) -> int:
    """MiniMax M3: the few blocks of keys that a query selects are all there are in a short sequence."""
    block = reading.fields.get("sparse_attention_config")
    part = Reading(block if isinstance(block, Mapping) else {}, reading.name)
    size = part.integer("sparse_topk_blocks") * part.integer("sparse_block_size")
    reading.problems += part.problems
    return size


_QWEN2: Final = Family(kv_heads=32, bias=None, qkv_bias=True, window=4096, window_pattern=1, window_switch=True)
_QWEN3: Final = Family(kv_heads=32, head_dim=128, qk_norm=True, window=4096, window_pattern=1, window_switch=True)
_NORMALIZER: Final = Scales(embeddings=True)
_GEMMA: Final = Family(head_dim=256, act="gelu_pytorch_tanh", tied=True, scales=_NORMALIZER)
_GEMMA2: Final = replace(_GEMMA, kv_heads=4, branch_norms=True, window=4096, window_pattern=2, caps=True)
_SCALED_LOGITS: Final = Scales(logits=True)
_GRANITE: Final = Scales(embeddings=True, branches=True, logits=True)
_COHERE: Final = Family(norm="layernorm", parallel=True, tied=True, qk_norm_key="use_qk_norm", scales=_SCALED_LOGITS)
_GLM: Final = Family(kv_heads=2, head_dim=128, biased=True, output_bias=False)
_OLMO2: Final = Family(qk_norm=True, joint_qk_norm=True)

LLAMA_LINE: Final[Mapping[str, Family]] = {
    "llama": Family(mlp_bias="mlp_bias"),
    "mistral": Family(kv_heads=8, bias=None, window=4096, window_pattern=1),
    "ministral": Family(kv_heads=8, bias=None, window=4096, window_pattern=1),
    "ministral3": Family(kv_heads=8, bias=None, window_pattern=1),
    "qwen2": _QWEN2,
    "qwen3": _QWEN3,
    "phi3": Family(bias=None, window_pattern=1),
    "mixtral": Family(kv_heads=8, bias=None, window_pattern=1),
    "qwen2_moe": Family(kv_heads=16, bias=None, qkv_bias=True, window=4096, window_pattern=1, window_switch=True),
    "qwen3_moe": Family(kv_heads=4, qk_norm=True, window=4096, window_pattern=1, window_switch=True),
    **dict.fromkeys(DEEPSEEK_LINE, Family()),
    **dict.fromkeys(
        ("deepseek_v32", "glm_moe_dsa"), Family(whole_up_to=lambda reading: reading.integer("index_topk", default=2048))
    ),
    "deepseek": Family(),
    "dots1": Family(qk_norm=True),
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": replace(_GEMMA2, qk_norm=True, window_pattern=6, caps=False),
    "glm": _GLM,
    "glm4": Family(kv_heads=2, head_dim=128, biased=True, output_bias=False, branch_norms=True),
    "glm4_moe": Family(kv_heads=8, head_dim=128, output_bias=False, qk_norm_key="use_qk_norm"),
    "cohere": _COHERE,
    "cohere2": Family(norm="layernorm", parallel=True, tied=True, window=4096, window_pattern=4, scales=_SCALED_LOGITS),
    "olmo": Family(norm="layernorm"),
    "olmo2": _OLMO2,
    "olmo3": Family(qk_norm=True, joint_qk_norm=True, window=4096, window_pattern=4),
    "olmoe": _OLMO2,
    "granite": Family(mlp_bias="mlp_bias", scales=_GRANITE),
    "granitemoe": Family(scales=_GRANITE),
    "granitemoeshared": Family(scales=_GRANITE),
    "stablelm": Family(
        bias="use_qkv_bias", output_bias=False, norm="layernorm", parallel=True, parallel_default=False,
        qk_norm_key="qk_layernorm",
    ),
    "starcoder2": Family(
        kv_heads=2, bias="use_bias", mlp_bias="use_bias", biased=True, norm="layernorm", act="gelu_pytorch_tanh",
        gated=False, tied=True, window=4096, window_pattern=1,
    ),
    "nemotron": Family(mlp_bias="mlp_bias", norm="layernorm", act="relu2", gated=False),
    "arcee": Family(mlp_bias="mlp_bias", act="relu2", gated=False),
    "internlm": Family(bias="bias", biased=True),
    "internlm2": Family(bias="bias", biased=True),
    "internlm3": Family(bias="qkv_bias", output_bias=False),
    "seed_oss": Family(head_dim=128, biased=True, output_bias=False),
    "smollm3": Family(kv_heads=4, tied=True, window_pattern=1, window_switch=True),
    "ernie4_5": Family(bias="use_bias", mlp_bias="use_bias", kv_heads=2, head_dim=128, tied=True),
    "exaone": Family(),
    "exaone4": Family(qk_norm=True, window=4096, window_pattern=4),
    "helium": Family(),
    "iquestcoder": Family(),
    "cwm": Family(window=8192, window_pattern=4),
    "vaultgemma": replace(_GEMMA, window=4096, window_pattern=2, caps=True),
    "apertus": Family(act="xielu", gated=False, qk_norm=True),
    "solar_open": Family(head_dim=128),
    "ernie4_5_moe": Family(bias="use_bias", mlp_bias="use_bias", kv_heads=4, tied=True),
    "hunyuan_v1_dense": Family(qk_norm=True),
    "mimo": Family(bias=None, qkv_bias=True, window=4096, window_pattern=1, window_switch=True),
    "yi": Family(),
    "gpt_oss": Family(kv_heads=8, head_dim=64, biased=True, window=128, window_pattern=2),
    "qwen3_next": Family(kv_heads=2, head_dim=256, qk_norm=True, linear=True),
    "qwen3_5_text": Family(kv_heads=4, head_dim=256, qk_norm=True, linear=True),
    "qwen3_5_moe_text": Family(kv_heads=2, head_dim=256, qk_norm=True, linear=True),
    "qwen3_5": Family(kv_heads=4, head_dim=256, qk_norm=True, linear=True),
    "qwen3_5_moe": Family(kv_heads=2, head_dim=256, qk_norm=True, linear=True),
    "step3p7": Family(qk_norm=False, window_pattern=1),
    "phimoe": Family(kv_heads=8, norm="layernorm", window_pattern=1),
    "minimax_m2": Family(kv_heads=8, head_dim=128, bias=None, qk_norm=True, joint_qk_norm=True),
    "minimax_m3": Family(
        kv_heads=4, head_dim=128, bias=None, qk_norm=True, inner="dense_intermediate_size", whole_up_to=_blocks_of_keys
    ),
    "llama4_text": Family(
        kv_heads=8, head_dim=128, inner="intermediate_size_mlp",
        whole_up_to=lambda reading: reading.integer("attention_chunk_size", default=8192),
    ),
}  # fmt: skip
"""By ``model_type``."""
