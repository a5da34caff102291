"""The ``model`` block: a model by its dimensions, or a synthetic one by the times of its stages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from simgpu.config.block import Block
from simgpu.config.quantity import ANY_CASE, Flag, Layers, Sequence, SizeBytes, StageTimesNs, Text, Width


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
    positions: Annotated[Literal["rope", "learned"], ANY_CASE] = "rope"
    """Position encoding; `learned` needs max_positions."""
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
    dense_layers: Layers | None = None
    """Blocks at the start that have an MLP of `ffn` instead of experts; none when left out."""
    sliding_window: Sequence | None = None
    """Tokens that a layer attends to at most; longer sequences are refused."""


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
    saved_bytes: SizeBytes = 0
    """Activations that one stage keeps per micro-batch from forward to backward."""


def is_synthetic(model: dict[str, Any]) -> bool:
    """Return whether the fields of a model are those of a synthetic one.

    Parameters
    ----------
    model : dict

    Returns
    -------
    bool

    Examples
    --------
    >>> is_synthetic({"stages": 4}), is_synthetic({"layers": 4})
    (True, False)
    """
    return any(key in model for key in ("stages", "forward_ns", "backward_ns"))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "<name>"
    if isinstance(value, SyntheticBlock):
        return "<synthetic>"
    if isinstance(value, dict) and is_synthetic(value):
        return "<synthetic>"
    return "<inline>"


ModelField = Annotated[
    Annotated[Text, Tag("<name>")]
    | Annotated[InlineModel, Tag("<inline>")]
    | Annotated[SyntheticBlock, Tag("<synthetic>")],
    Discriminator(_kind),
]
"""A bundled name, the path of a Hugging Face ``config.json``, dimensions, or a synthetic model."""
