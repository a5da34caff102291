"""The ``model`` block: a model by its dimensions, or a synthetic one by the times of its stages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from simgpu.config.block import Block
from simgpu.config.quantity import (
    ANY_CASE,
    LARGEST_LAYERS,
    Flag,
    Layers,
    Sequence,
    SizeBytes,
    StageTimesNs,
    Text,
    TimeNs,
    Whole,
    Width,
)

_BlockIndex = Annotated[int, Whole(least=0, most=LARGEST_LAYERS)]
DenseLayers = Annotated[
    Annotated[_BlockIndex, Tag("<count>")] | Annotated[list[_BlockIndex], Tag("<list>")],
    Discriminator(lambda value: "<list>" if isinstance(value, list) else "<count>"),
]
"""So many blocks at the start, or a list of blocks, counted from 0."""


class InlineModel(Block):
    """A decoder-only transformer by its dimensions."""

    layers: Layers
    """Transformer blocks."""
    hidden: Width
    """Width of the residual stream."""
    heads: Width
    """Attention (query) heads."""
    kv_heads: Width | None = None
    """Key and value heads; as many as `heads` when left out."""
    head_dim: Width | None = None
    """Width of one head; hidden / heads when left out."""
    ffn: Width | None = None
    """Inner width of the MLP; needed for swiglu and geglu unless all blocks have experts, 4 x hidden otherwise."""
    vocab: Width
    """Size of the vocabulary."""
    positions: Annotated[Literal["rope", "learned", "none"], ANY_CASE] = "rope"
    """Position encoding; `learned` needs max_positions, `none` stands for ALiBi too."""
    max_positions: Sequence | None = None
    """Rows of a learned position table."""
    norm: Annotated[Literal["rmsnorm", "layernorm"], ANY_CASE] = "rmsnorm"
    """Kind of normalisation."""
    mlp: Annotated[Literal["swiglu", "geglu", "gelu", "relu"], ANY_CASE] = "swiglu"
    """`swiglu` and `geglu` have three matrices (gate, up, down), the others two."""
    qkv_bias: Flag = False
    """Biases of the query/key/value projection."""
    output_bias: Flag = False
    """Bias of the attention output."""
    mlp_bias: Flag = False
    """Biases of the MLP."""
    qk_norm: Flag = False
    """RMSNorm over each query and key head (Qwen3)."""
    parallel_residual: Flag = False
    """Attention and MLP read the same input and are summed (GPT-NeoX)."""
    tied_embeddings: Flag = False
    """Head and embedding are one tensor."""
    experts: Width | None = None
    """Experts of a block (mixture of experts) in place of its MLP."""
    experts_per_token: Width | None = None
    """Experts that one token visits."""
    expert_ffn: Width | None = None
    """Inner width of one expert."""
    shared_ffn: Width | None = None
    """Inner width of the MLP that every token visits besides; none when left out."""
    dense_layers: DenseLayers | None = None
    """Blocks at the start that have an MLP of `ffn` instead of experts, or the list of all such blocks, counted from 0;
    none when left out."""
    kv_lora_rank: Width | None = None
    """Width of the latent vector of keys and values: latent attention (MLA), which has no kv_heads and head_dim."""
    q_lora_rank: Width | None = None
    """Width of the latent vector of queries; none when left out."""
    qk_nope_head_dim: Width | None = None
    """Width of a query or key head without rotary positions, in latent attention."""
    qk_rope_head_dim: Width | None = None
    """Width of its part with rotary positions."""
    v_head_dim: Width | None = None
    """Width of a value head, in latent attention."""
    sliding_window: Sequence | None = None
    """Tokens that a layer attends to at most; longer sequences are refused."""


class DerivedModel(Block):
    """A bundled model or a `config.json` with some of its dimensions changed; what is left out stays as it is."""

    base: Text
    """Bundled name or path of a Hugging Face `config.json`, of a transformer."""
    layers: Layers | None = None
    """Transformer blocks; of an encoder-decoder, those of each stack."""
    hidden: Width | None = None
    """Width of the residual stream; heads keep their number."""
    heads: Width | None = None
    """Attention (query) heads."""
    kv_heads: Width | None = None
    """Key and value heads."""
    head_dim: Width | None = None
    """Width of one head."""
    ffn: Width | None = None
    """Inner width of the MLP."""
    vocab: Width | None = None
    """Size of the vocabulary."""
    positions: Annotated[Literal["rope", "learned", "none"], ANY_CASE] | None = None
    """Position encoding."""
    max_positions: Sequence | None = None
    """Rows of a learned position table."""
    norm: Annotated[Literal["rmsnorm", "layernorm"], ANY_CASE] | None = None
    """Kind of normalisation."""
    mlp: Annotated[Literal["swiglu", "geglu", "gelu", "relu"], ANY_CASE] | None = None
    """Kind of MLP."""
    qkv_bias: Flag | None = None
    """Biases of the query/key/value projection."""
    output_bias: Flag | None = None
    """Bias of the attention output."""
    mlp_bias: Flag | None = None
    """Biases of the MLP."""
    qk_norm: Flag | None = None
    """RMSNorm over each query and key head."""
    parallel_residual: Flag | None = None
    """Attention and MLP read the same input and are summed."""
    tied_embeddings: Flag | None = None
    """Head and embedding are one tensor."""
    experts: Width | None = None
    """Experts of a block."""
    experts_per_token: Width | None = None
    """Experts that one token visits."""
    expert_ffn: Width | None = None
    """Inner width of one expert."""
    shared_ffn: Width | None = None
    """Inner width of the MLP that every token visits besides."""
    dense_layers: DenseLayers | None = None
    """Blocks at the start that have an MLP instead of experts, or the list of all such blocks."""
    sliding_window: Sequence | None = None
    """Tokens that a layer attends to at most."""

    @property
    def changes(self) -> dict[str, Any]:
        """Fields that are given, `base` left out."""
        return self.model_dump(exclude={"base"}, exclude_none=True)


class SyntheticBlock(Block):
    """Equal pipeline stages of given durations, with no embedding, head or optimizer: for teaching schedules."""

    stages: Layers
    """Pipeline stages; `parallel.pp` is the same number."""
    forward_ns: StageTimesNs
    """Forward of one micro-batch on one stage, ns or text such as '3 ms'; a list has one per stage."""
    backward_ns: StageTimesNs
    """Full backward of one micro-batch on one stage, ns or text such as '6 ms'; a list has one per stage."""
    backward_weight_ns: StageTimesNs | None = None
    """The part of backward that makes the weights' gradients, which zero-bubble schedules put off; half when left
    out. A list has one per stage."""
    activation_bytes: SizeBytes = 0
    """Message from stage to stage per micro-batch, and its gradient's."""
    message_ns: TimeNs | None = None
    """What such a message takes, whatever the network; as its bytes take on the network when left out."""
    saved_bytes: SizeBytes = 0
    """Activations that one stage keeps per micro-batch from forward to backward."""


def model_block(model: dict[str, Any]) -> type[Block]:
    """Return which block the fields of a model are those of.

    Parameters
    ----------
    model : dict

    Returns
    -------
    type

    Examples
    --------
    >>> [model_block(fields).__name__ for fields in ({"stages": 4}, {"layers": 4}, {"base": "gpt2", "layers": 4})]
    ['SyntheticBlock', 'InlineModel', 'DerivedModel']
    """
    if "base" in model:
        return DerivedModel
    return SyntheticBlock if any(key in model for key in ("stages", "forward_ns", "backward_ns")) else InlineModel


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "<name>"
    block = model_block(value) if isinstance(value, dict) else type(value)
    return "<synthetic>" if block is SyntheticBlock else "<derived>" if block is DerivedModel else "<inline>"


ModelField = Annotated[
    Annotated[Text, Tag("<name>")]
    | Annotated[InlineModel, Tag("<inline>")]
    | Annotated[DerivedModel, Tag("<derived>")]
    | Annotated[SyntheticBlock, Tag("<synthetic>")],
    Discriminator(_kind),
]
"""A bundled name, the path of a Hugging Face ``config.json``, either with changes, dimensions, or a synthetic model."""
