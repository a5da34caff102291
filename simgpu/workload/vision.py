"""Vision transformers (arXiv 2010.11929): an image as a sequence of patches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simgpu.errors import ModelError
from simgpu.workload.architecture import Architecture
from simgpu.workload.classifier import classifier_piece
from simgpu.workload.decoder import ShardOf, block_layers
from simgpu.workload.layer import ModelUnits
from simgpu.workload.model import Model
from simgpu.workload.normalization import norm
from simgpu.workload.op import Gemm, MemoryBound
from simgpu.workload.piece import Piece, ready
from simgpu.workload.shard import Shard
from simgpu.workload.training import Training
from simgpu.workload.unit import Parameter, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionTransformer(Architecture):
    """Bidirectional blocks over the patches of an image and a class token.

    Parameters
    ----------
    name, family : str
    blocks : Model
        Their dimensions; ``max_positions`` is one per patch and one for the class token.
    image, patch : int, pixels
        Sides of image and patch.
    channels, classes : int

    Raises
    ------
    ModelError
        When patches do not fill the image, or the table of positions has another length.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> bundled_model("vit-large").fixed_sequence
    197
    """

    name: str
    family: str
    blocks: Model
    image: int
    patch: int
    channels: int
    classes: int

    def __post_init__(self) -> None:
        problems = []
        for field in ("image", "patch", "channels", "classes"):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                problems.append(f"{field} = {value!r} must be a whole number of at least 1")
        if not problems and self.image % self.patch:
            problems.append(f"patch = {self.patch} does not divide image = {self.image}")
        if not problems and self.blocks.max_positions != self.fixed_sequence:
            problems.append(f"max_positions = {self.blocks.max_positions} is not {self.fixed_sequence}, one per token")
        if problems:
            raise ModelError("\n".join(f"model {self.name}: {problem}" for problem in problems))

    @property
    def layers(self) -> int:
        """Blocks of the model."""
        return self.blocks.layers

    @property
    def tensor_ways(self) -> int:
        """Tensor-parallel ranks share out whole heads."""
        return self.blocks.heads

    @property
    def patches(self) -> int:
        """Patches of one image."""
        return (self.image // self.patch) ** 2

    @property
    def fixed_sequence(self) -> int:
        """Patches and the class token."""
        return self.patches + 1

    @property
    def dimensions(self) -> Mapping[str, int]:
        """Every size of the description."""
        return {**self.blocks.dimensions, "vocab": self.classes}

    @property
    def patch_weights(self) -> int:
        """Weights of the patch embedding."""
        return self.blocks.hidden * self.channels * self.patch**2

    @property
    def parameters(self) -> int:
        """Trained parameters."""
        hidden = self.blocks.hidden
        embedding = self.patch_weights + hidden + hidden * (1 + self.fixed_sequence)  # bias, class token, positions
        return embedding + self.blocks.blocks_parameters + self.blocks.norm_parameters + self.classes * (hidden + 1)

    def model_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch; the patch embedding needs no gradient of the image."""
        images, tokens, blocks = training.micro_batch_size, training.tokens, self.blocks
        per_token = 6 * blocks.blocks_matmul_parameters + 3 * blocks.attention_flops(training.sequence_length)
        per_image = 4 * self.patches * self.patch_weights + 6 * self.classes * blocks.hidden
        return tokens * per_token + images * per_image

    def hardware_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch, recomputation included."""
        repeated = self.blocks.repeated_flops_per_token(training.sequence_length, training.recompute)
        return self.model_flops(training) + training.tokens * repeated

    def activation_bound_bytes(self, training: Training) -> int:
        """Return more than what all layers keep of one micro-batch."""
        pixels = training.micro_batch_size * self.channels * self.image**2
        return self.blocks.activation_bound_bytes(training) + 64 * pixels


def vision_units(model: VisionTransformer, training: Training, shard_of: ShardOf) -> ModelUnits:
    """Return patch embedding, blocks and classifier.

    Parameters
    ----------
    model : VisionTransformer
    training : Training
        Its sequence is the model's.
    shard_of : callable

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> shard_of = lambda blocks, training: Shard(model=blocks, training=training, tp=1, sequence_parallel=False)
    >>> training = Training(sequence_length=197, micro_batch_size=8, accumulation=1)
    >>> model = bundled_model("vit-large")
    >>> sum(unit.elements for unit in vision_units(model, training, shard_of).units) == model.parameters
    True
    """
    shard = shard_of(model.blocks, training)
    final = Piece.chain((norm(shard, "final_norm"), classifier_piece(shard, model.classes, pooler=False)))
    head = Unit(
        kind="head",
        parameters=final.parameters,
        forward=final.forward,
        backward=final.backward,
        saved_bytes=final.saved_bytes,
    )
    return ModelUnits(embedding=patch_embedding(shard, model), layers=block_layers(shard), head=head)


def patch_embedding(shard: Shard, model: VisionTransformer, *, bias: bool = True) -> Unit:
    """Return patches as rows of a GEMM, the class token put before them, and positions added.

    Parameters
    ----------
    shard : Shard
    model : VisionTransformer
    bias : bool
        Of the patches' projection.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> model = bundled_model("vit-large")
    >>> shard = Shard(model=model.blocks, tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=197, micro_batch_size=8, accumulation=1))
    >>> patch_embedding(shard, model).elements == 1024 * (3 * 16 * 16 + 1 + 1 + 197)
    True
    """
    hidden, element, dtype = shard.model.hidden, shard.element, shard.training.precision
    rows, deep = shard.training.micro_batch_size * model.patches, model.channels * model.patch**2

    def whole(name: str, elements: int) -> Parameter:
        return Parameter(name=name, elements=elements, total=elements, replicated=True)

    weight, offset = whole("patches.weight", model.patch_weights), whole("patches.bias", hidden) if bias else None
    summed = (MemoryBound(name="patches.bias_gradient", bytes=element * rows * hidden),) if bias else ()
    token, positions = whole("class_token", hidden), whole("positions.weight", model.fixed_sequence * hidden)
    pixels, stream = element * rows * deep, shard.stream_bytes
    return Unit(
        kind="embedding",
        parameters=(token, positions, weight, offset) if offset else (token, positions, weight),
        forward=(
            MemoryBound(name="patches.unfold", bytes=2 * pixels),
            Gemm(name="patches", m=rows, n=hidden, k=deep, dtype=dtype),
            MemoryBound(name="class_token.join", bytes=2 * stream),
            MemoryBound(name="positions", bytes=3 * stream),
        ),
        backward=(
            MemoryBound(name="positions.backward", bytes=stream),
            ready(positions),
            MemoryBound(name="class_token.split", bytes=2 * stream),
            ready(token),
            Gemm(name="patches.wgrad", m=hidden, n=deep, k=rows, dtype=dtype, layout="nt"),
            *summed,
            ready(weight, offset),
        ),
        saved_bytes=pixels,
        output_bytes=stream,
    )
