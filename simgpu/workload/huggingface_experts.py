"""Experts and latent attention from the keys of a Hugging Face ``config.json``.

Defaults are those of huggingface/transformers ``configuration_<family>.py``. ``num_nextn_predict_layers`` of
DeepSeek-V3 is not an error: DeepseekV3ForCausalLM of huggingface/transformers builds no multi-token-prediction layers,
and the published 671 B are without them.
"""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.errors import ModelError
from simgpu.workload.experts import Experts
from simgpu.workload.latent import LatentAttention
from simgpu.workload.reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Traits:
    """Keys and defaults of one family; a default of None makes the key necessary."""

    counts: tuple[str, ...]
    count: int | None = None
    active: int | None = None
    actives: tuple[str, ...] = ("num_experts_per_tok", "experts_per_token")
    width: str = "moe_intermediate_size"
    shared_width: str | None = None  # key of the shared MLP's own width
    shared_counts: tuple[str, ...] = ()  # keys of the number of shared experts, each of an expert's width
    shared_gate: bool = False
    sparse_step: str | None = None  # every so many-th layer has experts
    dense_first: str | None = None  # so many layers at the start have none


_SHARED = "shared_intermediate_size"
MOST_LAYERS = 10_000  # as scenarios have at most; they are gone through one by one
_DEEPSEEK = _Traits(
    counts=("n_routed_experts", "num_routed_experts"),
    shared_counts=("n_shared_experts", "num_shared_experts"),
    dense_first="first_k_dense_replace",
    sparse_step="moe_layer_freq",
)
DEEPSEEK_LINE = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite")
_QWEN_NEXT = _Traits(
    counts=("num_experts",),
    count=512,
    active=10,
    shared_width="shared_expert_intermediate_size",
    shared_gate=True,
    sparse_step="decoder_sparse_step",
)
EXPERT_TRAITS = {
    "mixtral": _Traits(counts=("num_local_experts",), count=8, active=2, width="intermediate_size"),
    "qwen2_moe": _Traits(
        counts=("num_experts",),
        count=60,
        active=4,
        shared_width="shared_expert_intermediate_size",
        shared_gate=True,
        sparse_step="decoder_sparse_step",
    ),
    "qwen3_moe": _Traits(
        counts=("num_experts", "num_local_experts"), count=128, active=8, sparse_step="decoder_sparse_step"
    ),
    **dict.fromkeys((*DEEPSEEK_LINE, "deepseek", "glm4_moe", "dots1", "solar_open"), _DEEPSEEK),
    **dict.fromkeys(("qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text"), _QWEN_NEXT),
    "step3p7": _Traits(counts=("num_experts",), shared_width="share_expert_dim", dense_first="first_k_dense_replace"),
    "olmoe": _Traits(counts=("num_experts",), count=64, active=8, width="intermediate_size"),
    "granitemoe": _Traits(counts=("num_local_experts",), count=8, active=2, width="intermediate_size"),
    "granitemoeshared": _Traits(
        counts=("num_local_experts",), count=8, active=2, width="intermediate_size", shared_width=_SHARED
    ),
    "ernie4_5_moe": _Traits(
        counts=("moe_num_experts",),
        actives=("moe_k",),
        shared_counts=("moe_num_shared_experts",),
        dense_first="moe_layer_start_index",
    ),
    "phimoe": _Traits(counts=("num_local_experts",), count=16, active=2, width="intermediate_size"),
    "gpt_oss": _Traits(counts=("num_local_experts",), count=128, active=4, width="intermediate_size"),
    "minimax_m2": _Traits(counts=("num_local_experts",), width="intermediate_size"),
    "minimax_m3": _Traits(counts=("num_local_experts",), shared_width=_SHARED, dense_first="first_k_dense_replace"),
    "llama4_text": _Traits(
        counts=("num_local_experts",),
        count=16,
        active=1,
        width="intermediate_size",
        shared_width="intermediate_size",
        sparse_step="interleave_moe_layer_step",
    ),
}


def experts_of(reading: Reading, family: str) -> Experts | None:
    """Return the routed and shared experts; None, with problems noted, when they cannot be.

    Examples
    --------
    >>> experts_of(Reading({"intermediate_size": 14336}, "mixtral-8x7b"), "mixtral").count
    8
    """
    traits, before = EXPERT_TRAITS[family], len(reading.problems)
    width = reading.integer(traits.width)
    count = reading.integer(*traits.counts, default=traits.count)
    active = reading.integer(*traits.actives, default=traits.active)
    shared = reading.integer(traits.shared_width, default=0, least=0) if traits.shared_width else 0
    if traits.shared_counts:
        shared = width * reading.integer(*traits.shared_counts, default=0, least=0)
    if len(reading.problems) > before:
        return None
    try:
        return Experts(
            count=count, active=active, ffn=width, shared_ffn=shared, shared_gate=traits.shared_gate and shared > 0
        )
    except ModelError as error:
        reading.problem(str(error))
        return None


def dense_layers(reading: Reading, family: str, layers: int) -> tuple[int, ...]:
    """Return which layers keep a plain MLP.

    Examples
    --------
    >>> dense_layers(Reading({"first_k_dense_replace": 3}, "deepseek"), "deepseek_v3", 61)
    (0, 1, 2)
    """
    traits = EXPERT_TRAITS[family]
    if layers > MOST_LAYERS:
        reading.problem(f"the number of layers must be at most {MOST_LAYERS}")
        return ()
    kinds = reading.fields.get("mlp_layer_types")
    if isinstance(kinds, list):
        return tuple(i for i, kind in enumerate(kinds[:layers]) if kind == "dense")
    first = reading.integer(traits.dense_first, default=0, least=0) if traits.dense_first else 0
    step = reading.integer(traits.sparse_step, default=1) if traits.sparse_step else 1
    listed = reading.fields.get("mlp_only_layers") or []
    if not isinstance(listed, list) or not all(isinstance(index, int) for index in listed):
        reading.problem(f"mlp_only_layers = {listed!r} must be a list of layer numbers")
        listed = []
    offset = 0 if traits.dense_first else 1  # DeepSeek counts from 0, Qwen from 1
    return tuple(i for i in range(layers) if i < first or i in listed or (i + offset) % step)


def latent_of(reading: Reading) -> LatentAttention:
    """Return the latent attention of the DeepSeek line.

    Examples
    --------
    >>> latent_of(Reading({"kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    ...                    "v_head_dim": 128}, "lite")).head_dim
    192
    """
    rank = reading.fields.get("q_lora_rank")
    return LatentAttention(
        kv_rank=reading.integer("kv_lora_rank"),
        query_rank=None if rank is None else reading.integer("q_lora_rank"),
        nope_dim=reading.integer("qk_nope_head_dim"),
        rope_dim=reading.integer("qk_rope_head_dim"),
        value_dim=reading.integer("v_head_dim"),
    )
