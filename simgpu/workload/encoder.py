"""Encoder-only transformers: BERT (arXiv 1810.04805)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simgpu.errors import ModelError
from simgpu.workload.architecture import Architecture
from simgpu.workload.classifier import classifier_piece
from simgpu.workload.decoder import ShardOf, block_layers
from simgpu.workload.embedding import embedding_unit
from simgpu.workload.head import head_unit
from simgpu.workload.layer import ModelUnits, followed_by
from simgpu.workload.mlp_block import activation
from simgpu.workload.model import Model
from simgpu.workload.normalization import norm
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece, ready
from simgpu.workload.replicated import replicated_linear
from simgpu.workload.shard import Shard
from simgpu.workload.training import Training
from simgpu.workload.unit import Parameter, Unit

HEADS = ("pretraining", "mlm", "classifier")
NEXT_SENTENCE = 2  # classes of the next-sentence prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder(Architecture):
    """Bidirectional blocks between token embeddings and a head.

    Parameters
    ----------
    name, family : str
    blocks : Model
        Their dimensions; with learned positions, norms after the residual, and the vocabulary.
    token_types : int
        Rows of the token-type table.
    head : str
        ``mlm`` (masked language model on every token), ``pretraining`` (that and next-sentence prediction from a
        pooled first token), ``classifier`` (pooled first token to classes).
    classes : int
        Of the classifier.

    Raises
    ------
    ModelError
        For an unknown head, or a classifier without classes.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> bundled_model("bert-large").parameters
    336226108
    """

    name: str
    family: str
    blocks: Model
    token_types: int
    head: str = "mlm"
    classes: int = 0

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise ModelError(f"model {self.name}: head = {self.head!r} is not modelled; allowed: {', '.join(HEADS)}")
        if self.head == "classifier" and self.classes < 1:
            raise ModelError(f"model {self.name}: classes = {self.classes!r} must be a whole number of at least 1")

    @property
    def layers(self) -> int:
        """Blocks of the model."""
        return self.blocks.layers

    @property
    def tensor_ways(self) -> int:
        """Tensor-parallel ranks share out whole heads."""
        return self.blocks.heads

    @property
    def dimensions(self) -> Mapping[str, int]:
        """Every size of the description."""
        return {**self.blocks.dimensions, "parameters": self.parameters}

    @property
    def parameters(self) -> int:
        """Trained parameters, the tied table counted once."""
        blocks, hidden = self.blocks, self.blocks.hidden
        tables = (blocks.vocab + blocks.position_rows + self.token_types) * hidden + blocks.norm_parameters
        transform = hidden * hidden + hidden + blocks.norm_parameters + blocks.vocab  # and the logits' bias
        pooler = hidden * hidden + hidden + self.pooled_classes * (hidden + 1)
        head = (transform if self.head != "classifier" else 0) + (pooler if self.pooled_classes else 0)
        return tables + blocks.blocks_parameters + head

    @property
    def pooled_classes(self) -> int:
        """Classes that are told from the pooled first token; 0 without such a head."""
        return {"mlm": 0, "pretraining": NEXT_SENTENCE, "classifier": self.classes}[self.head]

    def model_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch: 6 per weight and token it meets, and the full square of attention."""
        blocks, hidden = self.blocks, self.blocks.hidden
        met = blocks.blocks_matmul_parameters
        if self.head != "classifier":
            met += hidden * (hidden + blocks.vocab)
        pooled = hidden * (hidden + self.pooled_classes) if self.pooled_classes else 0
        attention = 3 * blocks.attention_flops(training.sequence_length)
        return training.tokens * (6 * met + attention) + 6 * training.micro_batch_size * pooled

    def hardware_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch, recomputation included."""
        repeated = self.blocks.repeated_flops_per_token(training.sequence_length, training.recompute)
        return self.model_flops(training) + training.tokens * repeated

    def activation_bound_bytes(self, training: Training) -> int:
        """Return more than what all layers keep of one micro-batch."""
        return self.blocks.activation_bound_bytes(training)


def encoder_units(model: Encoder, training: Training, shard_of: ShardOf) -> ModelUnits:
    """Return embedding, blocks and head.

    Parameters
    ----------
    model : Encoder
    training : Training
    shard_of : callable

    Notes
    -----
    The masked language model computes logits of every token, as huggingface/transformers models/bert does; recipes
    that gather the masked 15 % first save most of the head.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> shard_of = lambda blocks, training: Shard(model=blocks, training=training, tp=1, sequence_parallel=False)
    >>> training = Training(sequence_length=512, micro_batch_size=8, accumulation=1)
    >>> units = encoder_units(bundled_model("bert-large"), training, shard_of)
    >>> sum(unit.elements for unit in units.units)
    336226108
    """
    shard = shard_of(model.blocks, training)
    embedding = followed_by(
        followed_by(embedding_unit(shard), _token_types(shard, model.token_types)), norm(shard, "norm")
    )
    return ModelUnits(embedding=embedding, layers=block_layers(shard), head=_head(shard, model))


def _token_types(shard: Shard, rows: int) -> Piece:
    """Return the sum with a row of the small token-type table; its gradient is a sum over tokens."""
    elements = rows * shard.model.hidden
    table = Parameter(name="token_types.weight", elements=elements, total=elements, replicated=True)
    return Piece(
        parameters=(table,),
        forward=(MemoryBound(name="token_types", bytes=3 * shard.stream_bytes),),
        backward=(MemoryBound(name="token_types.backward", bytes=shard.stream_bytes), ready(table)),
    )


def _head(shard: Shard, model: Encoder) -> Unit:
    pooled = classifier_piece(shard, model.pooled_classes, pooler=True) if model.pooled_classes else Piece()
    if model.head == "classifier":
        return Unit(
            kind="head",
            parameters=pooled.parameters,
            forward=pooled.forward,
            backward=pooled.backward,
            saved_bytes=pooled.saved_bytes,
        )
    transform = Piece.chain(
        (
            replicated_linear(shard, "transform", outputs=shard.model.hidden, bias=True, allow_fp8=False),
            activation(shard, "transform.gelu", "gelu", shard.own_tokens * shard.model.hidden),
            norm(shard, "transform_norm"),
        )
    )
    return followed_by(head_unit(shard, before=transform, bias=True), pooled)
