"""Two towers that are trained to agree: CLIP (arXiv 2103.00020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd

from simgpu.workload.architecture import Architecture
from simgpu.workload.block import block_unit
from simgpu.workload.contrastive import FP32, contrastive_logits_bytes, contrastive_piece
from simgpu.workload.decoder import ShardOf
from simgpu.workload.embedding import embedding_unit
from simgpu.workload.layer import Layer, ModelUnits, followed_by
from simgpu.workload.model import Model
from simgpu.workload.normalization import norm
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece, ready
from simgpu.workload.replicated import replicated_linear
from simgpu.workload.shard import Shard
from simgpu.workload.training import Training
from simgpu.workload.unit import Parameter, Unit
from simgpu.workload.vision import VisionTransformer, patch_embedding


@dataclass(frozen=True, slots=True, kw_only=True)
class DualEncoder(Architecture):
    """An image tower and a text tower, whose pooled outputs are projected to one width and compared.

    Parameters
    ----------
    name, family : str
    vision : VisionTransformer
        Its ``classes`` are the width of the features.
    text : Model
        Causal blocks with learned positions, one per token of a text.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> bundled_model("clip-vit-b-32").parameters
    151277313
    """

    name: str
    family: str
    vision: VisionTransformer
    text: Model

    @property
    def width(self) -> int:
        """Width of the features."""
        return self.vision.classes

    @property
    def layers(self) -> int:
        """Blocks of both towers."""
        return self.vision.layers + self.text.layers

    @property
    def tensor_ways(self) -> int:
        """Tensor-parallel ranks share out whole heads of both towers."""
        return gcd(self.vision.tensor_ways, self.text.heads)

    @property
    def fixed_sequence(self) -> int:
        """Tokens of a pair: the image's and the text's."""
        return self.vision.fixed_sequence + self.text.max_positions

    @property
    def dimensions(self) -> Mapping[str, int]:
        """Every size of the description."""
        return {**self.text.dimensions, "layers": self.layers}

    @property
    def parameters(self) -> int:
        """Trained parameters; the patch embedding has no bias."""
        vision, text = self.vision, self.text
        images = vision.patch_weights + vision.blocks.hidden * (1 + vision.fixed_sequence)
        norms = 2 * vision.blocks.norm_parameters + text.norm_parameters
        tables = (text.vocab + text.max_positions) * text.hidden
        projections = self.width * (vision.blocks.hidden + text.hidden)
        return images + vision.blocks.blocks_parameters + text.blocks_parameters + tables + norms + projections + 1

    def model_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch; the loss compares its own pairs, whatever other ranks there are."""
        pairs, vision, text = training.micro_batch_size, self.vision, self.text
        seen, length = vision.fixed_sequence, text.max_positions
        image = seen * (6 * vision.blocks.blocks_matmul_parameters + 3 * vision.blocks.attention_flops(seen))
        words = length * (6 * text.blocks_matmul_parameters + 3 * text.attention_flops(length))
        projections = 6 * self.width * (vision.blocks.hidden + text.hidden)
        each = image + words + projections + 4 * vision.patches * vision.patch_weights
        return pairs * (each + 6 * pairs * self.width)

    def hardware_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch, recomputation included."""
        vision, text, recompute = self.vision, self.text, training.recompute
        seen, length = vision.fixed_sequence, text.max_positions
        repeated = seen * vision.blocks.repeated_flops_per_token(seen, recompute)
        repeated += length * text.repeated_flops_per_token(length, recompute)
        return self.model_flops(training) + training.micro_batch_size * repeated

    def activation_bound_bytes(self, training: Training) -> int:
        """Return more than what all layers keep of one micro-batch."""
        images = replace(training, sequence_length=self.vision.fixed_sequence)
        texts = replace(training, sequence_length=self.text.max_positions)
        return self.vision.activation_bound_bytes(images) + self.text.activation_bound_bytes(texts)


def dual_encoder_units(model: DualEncoder, training: Training, shard_of: ShardOf) -> ModelUnits:
    """Return patch embedding, the blocks of the image tower, those of the text tower, and the loss.

    Parameters
    ----------
    model : DualEncoder
    training : Training
    shard_of : callable

    Notes
    -----
    The first text layer begins with what ends the image tower, pooling and projection, and the look-up of the text's
    tokens. Stages of a pipeline that hold text layers hand on the image features too.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> shard_of = lambda blocks, training: Shard(model=blocks, training=training, tp=1, sequence_parallel=False)
    >>> model = bundled_model("clip-vit-l-14")
    >>> training = Training(sequence_length=model.fixed_sequence, micro_batch_size=8, accumulation=1)
    >>> sum(unit.elements for unit in dual_encoder_units(model, training, shard_of).units) == model.parameters
    True
    """
    image = shard_of(model.vision.blocks, replace(training, sequence_length=model.vision.fixed_sequence))
    text = shard_of(model.text, replace(training, sequence_length=model.text.max_positions))
    features = FP32 * training.micro_batch_size * model.width
    picture, words = block_unit(image), block_unit(text)
    bridge = _bridge(image, text, model.width)
    layers = [Layer(name=f"image block {i}", units=(picture,)) for i in range(model.vision.layers)]
    layers += [
        Layer(name=f"text block {i}", units=(words,) if i else (bridge, words), carried_bytes=features)
        for i in range(model.text.layers)
    ]
    final = Piece.chain(
        (
            norm(text, "final_norm"),
            _pooled(text, "text"),
            replicated_linear(
                text, "text_projection", outputs=model.width, rows=training.micro_batch_size, allow_fp8=False
            ),
            contrastive_piece(text, model.width),
        )
    )
    logits = contrastive_logits_bytes(text)
    head = Unit(
        kind="head",
        parameters=final.parameters,
        forward=final.forward,
        backward=final.backward,
        saved_bytes=final.saved_bytes,
        logits_bytes=logits,
        backward_bytes=logits,
    )
    embedding = followed_by(patch_embedding(image, model.vision, bias=False), norm(image, "pre_norm"))
    return ModelUnits(embedding=embedding, layers=tuple(layers), head=head)


def _pooled(shard: Shard, tower: str) -> Piece:
    """Pick one token of every sequence; backward zero-fills a gradient of the whole stream."""
    vectors = shard.training.micro_batch_size * shard.model.hidden * shard.element
    return Piece(
        forward=(MemoryBound(name=f"{tower}.pool", bytes=2 * vectors),),
        backward=(MemoryBound(name=f"{tower}.pool.backward", bytes=shard.stream_bytes + 2 * vectors, kernels=2),),
    )


def _bridge(image: Shard, text: Shard, width: int) -> Unit:
    """Pooling, norm and projection of the images, and the look-up of the texts' tokens."""
    pairs, hidden = image.training.micro_batch_size, image.model.hidden
    vectors = pairs * hidden * image.element
    weight, offset = (
        Parameter(name=f"post_norm.{part}", elements=hidden, total=hidden, replicated=True, vector=True)
        for part in ("weight", "bias")
    )
    post = Piece(
        parameters=(weight, offset),
        forward=(MemoryBound(name="post_norm", bytes=2 * vectors, pattern="norm"),),
        backward=(
            MemoryBound(name="post_norm.backward", bytes=5 * vectors, pattern="norm", kernels=2),
            ready(weight, offset),
        ),
        saved_bytes=vectors,
    )
    projection = replicated_linear(image, "image_projection", outputs=width, rows=pairs, allow_fp8=False)
    images, lookup = Piece.chain((_pooled(image, "image"), post, projection)), embedding_unit(text)
    return Unit(
        kind="entry",
        parameters=images.parameters + lookup.parameters,
        forward=images.forward + lookup.forward,
        backward=lookup.backward + images.backward,
        saved_bytes=images.saved_bytes + lookup.saved_bytes,
        output_bytes=lookup.output_bytes,
    )
