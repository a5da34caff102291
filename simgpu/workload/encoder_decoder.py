"""Encoder-decoder transformers: T5 (arXiv 1910.10683)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simgpu.workload.architecture import Architecture
from simgpu.workload.attention_core import core_piece
from simgpu.workload.block import block_unit
from simgpu.workload.decoder import ShardOf
from simgpu.workload.embedding import EMBEDDING, embedding_unit
from simgpu.workload.head import head_unit
from simgpu.workload.layer import Layer, ModelUnits
from simgpu.workload.linear import column_parallel, row_parallel
from simgpu.workload.model import Model
from simgpu.workload.normalization import norm
from simgpu.workload.op import Attention, MemoryBound
from simgpu.workload.piece import Piece, ready
from simgpu.workload.shard import Shard
from simgpu.workload.training import Training
from simgpu.workload.unit import GradientReady, Parameter, Unit

_DECODER_TABLE = "decoder_embedding.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoder(Architecture):
    """Encoder blocks, then decoder blocks that also attend to the encoder's output.

    Parameters
    ----------
    name, family : str
    encoder, decoder : Model
        Dimensions of their blocks, of one width and vocabulary; the decoder's ``tied_embeddings`` say whether the head
        is the embedding table, which both stacks share.
    buckets : int
        Relative distances with a bias of their own per head, in a table of each stack.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> bundled_model("t5-large").parameters
    737668096
    """

    name: str
    family: str
    encoder: Model
    decoder: Model
    buckets: int

    @property
    def layers(self) -> int:
        """Blocks of both stacks."""
        return self.encoder.layers + self.decoder.layers

    @property
    def tensor_ways(self) -> int:
        """Tensor-parallel ranks share out whole heads."""
        return self.encoder.heads

    @property
    def dimensions(self) -> Mapping[str, int]:
        """Every size of the description."""
        return {**self.decoder.dimensions, "layers": self.layers}

    @property
    def _width(self) -> int:
        return self.decoder.heads * self.decoder.head_dim

    @property
    def parameters(self) -> int:
        """Trained parameters, the shared table counted once."""
        encoder, decoder, hidden = self.encoder, self.decoder, self.decoder.hidden
        tables = decoder.vocab * hidden * (1 if decoder.tied_embeddings else 2)
        cross = decoder.layers * (4 * hidden * self._width + decoder.norm_parameters)
        biases = self.buckets * (encoder.heads + decoder.heads)
        norms = encoder.norm_parameters + decoder.norm_parameters
        return tables + encoder.blocks_parameters + decoder.blocks_parameters + cross + biases + norms

    def model_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch: each stack's own tokens, and cross attention's keys of the source."""
        target, hidden, decoder = target_training(training), self.decoder.hidden, self.decoder
        source_weights = self.encoder.blocks_matmul_parameters + 2 * decoder.layers * hidden * self._width
        target_weights = decoder.matmul_parameters + 2 * decoder.layers * hidden * self._width
        seen = decoder.attention_flops(target.sequence_length) + decoder.attention_flops(training.sequence_length)
        source = 6 * source_weights + 3 * self.encoder.attention_flops(training.sequence_length)
        return training.tokens * source + target.tokens * (6 * target_weights + 3 * seen)

    def hardware_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch, recomputation included; selective repeats self attention only."""
        target, recompute = target_training(training), training.recompute
        repeated = training.tokens * self.encoder.repeated_flops_per_token(training.sequence_length, recompute)
        repeated += target.tokens * self.decoder.repeated_flops_per_token(target.sequence_length, recompute)
        if recompute == "full":
            projections = 4 * self.decoder.layers * self.decoder.hidden * self._width
            repeated += (training.tokens + target.tokens) * projections
            repeated += target.tokens * self.decoder.attention_flops(training.sequence_length)
        return self.model_flops(training) + repeated

    def activation_bound_bytes(self, training: Training) -> int:
        """Return more than what all layers keep of one micro-batch."""
        target = target_training(training)
        both = self.encoder.activation_bound_bytes(training) + self.decoder.activation_bound_bytes(target)
        return 2 * both + self.decoder.activation_bound_bytes(training)


def target_training(training: Training) -> Training:
    """Return the training as the decoder sees it.

    Examples
    --------
    >>> target_training(Training(sequence_length=512, micro_batch_size=2, accumulation=1, target_length=114)).tokens
    228
    """
    return replace(training, sequence_length=training.target_length or training.sequence_length)


def encoder_decoder_units(model: EncoderDecoder, training: Training, shard_of: ShardOf) -> ModelUnits:
    """Return embedding, encoder blocks, decoder blocks and head.

    Parameters
    ----------
    model : EncoderDecoder
    training : Training
        ``sequence_length`` tokens of source, ``target_length`` of target.
    shard_of : callable

    Notes
    -----
    The first block of each stack makes the relative bias of all of them; the first decoder layer starts with the
    encoder's final norm and the look-up of target tokens in the shared table. In a pipeline the bias is made, from a
    table of its own, by every stage that a stack goes on in, and decoder stages hand on the encoder's output besides
    their own: the gradient that comes back for it joins what their cross attention makes, as in NVIDIA/Megatron-LM
    core/pipeline_parallel/schedules.py (get_tensor_shapes and backward_step of v0.7, encoder_and_decoder).

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> shard_of = lambda blocks, training: Shard(model=blocks, training=training, tp=1, sequence_parallel=False)
    >>> training = Training(sequence_length=512, micro_batch_size=8, accumulation=1, target_length=114)
    >>> units = encoder_decoder_units(bundled_model("t5-large"), training, shard_of)
    >>> sum(unit.elements for unit in units.units)
    737668096
    """
    source, target = shard_of(model.encoder, training), shard_of(model.decoder, target_training(training))
    embedding = embedding_unit(source)
    first, later = (block_unit(source, scores=_bias(source, made)) for made in (model.buckets, 0))
    cross = _cross_attention(source, target)
    entry = _entry(source, model.buckets, Piece())
    layers = [
        Layer(name=f"encoder block {i}", units=(later if i else first,), entry=entry if i else None)
        for i in range(model.encoder.layers)
    ]
    first, later = (block_unit(target, scores=_bias(target, made), cross=cross) for made in (model.buckets, 0))
    bridge, entry = _bridge(source, target), _entry(target, model.buckets, _memory(source))
    layers += [
        Layer(
            name=f"decoder block {i}",
            units=(later,) if i else (bridge, first),
            entry=entry if i else None,
            carried_bytes=source.stream_bytes,
        )
        for i in range(model.decoder.layers)
    ]
    return ModelUnits(embedding=embedding, layers=tuple(layers), head=head_unit(target))


def _bias(shard: Shard, buckets: int) -> Piece:
    """Return the relative bias of a stack, made from its table where ``buckets`` are given, and its use in one block.

    It is E bytes per head, query and key. The core reads it for each sequence; backward writes a gradient of the same
    size, summed over sequences and blocks.
    """
    length, sequences = shard.training.sequence_length, shard.training.micro_batch_size
    size = shard.element * shard.heads * length**2
    use = Piece(
        forward=(MemoryBound(name="attention.bias", bytes=sequences * size),),
        backward=(MemoryBound(name="attention.bias.backward", bytes=(sequences + 2) * size),),
    )
    return Piece.chain((_bias_from_table(shard, buckets), use)) if buckets else use


def _bias_from_table(shard: Shard, buckets: int) -> Piece:
    size, elements = shard.element * shard.heads * shard.training.sequence_length**2, buckets * shard.heads
    table = Parameter(name="relative_bias.weight", elements=elements, total=buckets * shard.model.heads)
    return Piece(
        parameters=(table,),
        forward=(MemoryBound(name="relative_bias", bytes=2 * size, kernels=2),),
        backward=(MemoryBound(name="relative_bias.backward", bytes=2 * size, kernels=2), ready(table)),
        saved_bytes=size,
    )


def _memory(source: Shard) -> Piece:
    """Return what a later decoder stage does with the encoder's output: keep it, and add the gradient handed back."""
    size = source.stream_bytes
    summed = MemoryBound(name="memory.gradient_sum", bytes=3 * size)
    return Piece(backward=(summed,), saved_bytes=size)


def _entry(shard: Shard, buckets: int, received: Piece) -> Unit:
    """Return what a pipeline stage begins with in which a stack goes on."""
    piece = Piece.chain((received, _bias_from_table(shard, buckets)))
    return Unit(
        kind="entry",
        parameters=piece.parameters,
        forward=piece.forward,
        backward=piece.backward,
        saved_bytes=piece.saved_bytes,
        output_bytes=shard.stream_bytes,
    )


def _cross_attention(source: Shard, target: Shard) -> Piece:
    """Return cross attention, from normalised target to summed output; all blocks keep one encoder output."""
    model, element = target.model, target.element
    width, total = target.heads * model.head_dim, model.heads * model.head_dim
    query = column_parallel(target, "cross.q", outputs=width, total_outputs=total)
    key_value = column_parallel(source, "cross.kv", outputs=2 * width, total_outputs=2 * total)
    kept_once = source.training.matmul_dtype.bytes * source.own_tokens * model.hidden
    # The encoder output's gradient is summed over the decoder's blocks
    summed = MemoryBound(name="cross.memory_gradient_sum", bytes=3 * source.stream_bytes)
    key_value = replace(
        key_value, backward=(*key_value.backward, summed), saved_bytes=key_value.saved_bytes - kept_once
    )
    core = core_piece(
        target,
        Attention(
            name="cross.core",
            batch=target.training.micro_batch_size,
            sequence=target.training.sequence_length,
            heads=target.heads,
            kv_heads=target.heads,
            head_dim=model.head_dim,
            causal=False,
            dtype=target.training.precision,
            kv_sequence=source.training.sequence_length,
        ),
    )
    core = replace(core, saved_bytes=core.saved_bytes + element * width * (target.tokens + 2 * source.tokens))
    out = row_parallel(target, "cross.out", inputs=width, total_inputs=total, bias=False)
    return Piece.chain((query, key_value, core, out))


def _bridge(source: Shard, target: Shard) -> Unit:
    """Return the encoder's final norm, whose output is kept for all decoder blocks, and the target's look-up."""
    lookup, last = embedding_unit(target), norm(source, "encoder_norm")
    table = next(p for p in lookup.parameters if p.name == EMBEDDING)
    renamed = tuple(
        ready(replace(table, name=_DECODER_TABLE)) if isinstance(item, GradientReady) else item
        for item in lookup.backward
    )
    return Unit(
        kind="entry",
        parameters=(*last.parameters, replace(table, name=_DECODER_TABLE, tied=EMBEDDING)),
        forward=last.forward + lookup.forward,
        backward=renamed + last.backward,
        saved_bytes=last.saved_bytes + source.stream_bytes + lookup.saved_bytes,
        output_bytes=lookup.output_bytes,
    )
