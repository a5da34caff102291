"""Residual networks for images (arXiv 1512.03385), as torchvision builds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simgpu.errors import Issue, ModelError, ScenarioError
from simgpu.workload.architecture import Architecture
from simgpu.workload.convolution import Images
from simgpu.workload.layer import Layer, ModelUnits
from simgpu.workload.op import Gemm, MemoryBound
from simgpu.workload.piece import Piece, ready
from simgpu.workload.residual_block import EXPANSION, FP32, Kit, buffer_bytes, residual_block, residual_unit
from simgpu.workload.training import Training
from simgpu.workload.unit import Parameter, Unit

CHANNELS = 3  # red, green, blue
STEM = 64  # channels of the first convolution, and of the first stage
POOL_INDEX_BYTES = 8  # int64 position of each maximum


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNet(Architecture):
    """A residual network.

    Parameters
    ----------
    name, family : str
    block : str
        ``basic`` (two 3 x 3 convolutions) or ``bottleneck`` (1 x 1, 3 x 3, 1 x 1; the stride on the 3 x 3).
    depths : tuple of int
        Blocks of each stage; widths double and maps halve from stage to stage.
    image : int, pixels
    classes : int

    Raises
    ------
    ModelError
        Names every number that cannot be.

    Examples
    --------
    >>> ResNet(name="resnet-50", family="resnet", block="bottleneck", depths=(3, 4, 6, 3)).parameters
    25557032
    """

    name: str
    family: str
    block: str
    depths: tuple[int, ...]
    image: int = 224
    classes: int = 1000

    def __post_init__(self) -> None:
        problems = [] if self.block in EXPANSION else [f"block = {self.block!r} is not modelled; allowed: {_BLOCKS}"]
        numbers = {f"depths[{i}]": depth for i, depth in enumerate(self.depths)}
        for field, value in {**numbers, "image": self.image, "classes": self.classes}.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                problems.append(f"{field} = {value!r} must be a whole number of at least 1")
        if not self.depths:
            problems.append("depths is empty")
        if problems:
            raise ModelError("\n".join(f"model {self.name}: {problem}" for problem in problems))

    @property
    def layers(self) -> int:
        """Residual blocks."""
        return sum(self.depths)

    @property
    def tensor_ways(self) -> int:
        """Nothing is split."""
        return 1

    @property
    def fixed_sequence(self) -> int:
        """An image counts as one token."""
        return 1

    @property
    def dimensions(self) -> Mapping[str, int]:
        """Every size of the description."""
        return {"layers": self.layers, "max_positions": self.image, "vocab": self.classes}

    @property
    def parameters(self) -> int:
        """Trained parameters."""
        return sum(elements for _, elements in self.named_parameters)

    @property
    def named_parameters(self) -> tuple[tuple[str, int], ...]:
        """Names and sizes of all parameters, as torchvision registers them.

        Examples
        --------
        >>> ResNet(name="r", family="resnet", block="basic", depths=(2, 2, 2, 2)).named_parameters[:2]
        (('conv1.weight', 9408), ('bn1.weight', 64))
        """
        one = Training(sequence_length=1, micro_batch_size=1, accumulation=1)
        units = resnet_units(self, one).units
        return tuple((parameter.name, parameter.elements) for unit in units for parameter in unit.parameters)

    def activation_bound_bytes(self, training: Training) -> int:
        """Return more than what all layers keep of one micro-batch: 64 maps of the stem's size per block."""
        return 64 * training.micro_batch_size * self.layers * STEM * self.image**2

    def model_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch: 6 per weight and place it is used; the first input has no gradient."""
        return sum(
            item.flops
            for unit in resnet_units(self, training).units
            for item in (*unit.forward, *unit.backward)
            if isinstance(item, Gemm)
        )

    def hardware_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch with the blocks' forward once more under full recomputation."""
        repeated = sum(
            item.flops
            for unit in resnet_units(self, training).units
            for item in unit.recompute
            if isinstance(item, Gemm)
        )
        return self.model_flops(training) + repeated


_BLOCKS = ", ".join(EXPANSION)


def resnet_units(model: ResNet, training: Training, *, cast_weights: bool = False, replicas: int = 1) -> ModelUnits:
    """Return stem, residual blocks and head.

    Parameters
    ----------
    model : ResNet
    training : Training
        Its micro-batch is so many images.
    cast_weights : bool
        Autocast on weights stored in another format.
    replicas : int
        Data-parallel ranks, for batch norms over the images of all (``training.sync_batch_norm``).

    Raises
    ------
    ScenarioError
        For recomputation of an attention core, which is not there.

    Examples
    --------
    >>> resnet = ResNet(name="resnet-18", family="resnet", block="basic", depths=(2, 2, 2, 2))
    >>> units = resnet_units(resnet, Training(sequence_length=1, micro_batch_size=1, accumulation=1))
    >>> sum(unit.elements for unit in units.units), [layer.name for layer in units.layers][:3]
    (11689512, ['layer1.0', 'layer1.1', 'layer2.0'])
    """
    if training.recompute == "selective":
        problem = f"repeats the attention core, which {model.name} does not have"
        raise ScenarioError(
            [Issue(field="training.recompute", value="selective", problem=problem, allowed="none, full")]
        )
    kit = Kit(training, training.param_dtype.bytes if cast_weights else 0, replicas)
    stem, images = _stem(model, kit)
    layers = []
    for stage, depth in enumerate(model.depths):
        for index in range(depth):
            name = f"layer{stage + 1}.{index}"
            stride = 2 if stage and not index else 1
            piece, output = residual_block(model.block, name, images, STEM << stage, stride, kit)
            layers.append(Layer(name=name, units=(residual_unit(piece, images, output, training),)))
            images = output
    return ModelUnits(embedding=stem, layers=tuple(layers), head=_head(model, images, kit))


def _stem(model: ResNet, kit: Kit) -> tuple[Unit, Images]:
    """7 x 7 convolution, batch norm, ReLU, 3 x 3 max pool; no gradient for the image."""
    batch, element = kit.training.micro_batch_size, kit.dtype.bytes
    first = kit.convolution(
        "conv1", Images(batch=batch, size=model.image, channels=CHANNELS, element=element), STEM, 7, 2
    )
    wide = first.output
    output = replace(wide, size=-(-wide.size // 2))
    moved = wide.bytes + output.bytes + POOL_INDEX_BYTES * output.elements
    pool = Piece(
        forward=(MemoryBound(name="maxpool", bytes=moved),),
        backward=(MemoryBound(name="maxpool.backward", bytes=moved),),
        saved_bytes=wide.bytes + POOL_INDEX_BYTES * output.elements,
    )
    piece = Piece.chain((first.piece(input_gradient=False), kit.batch_norm("bn1", wide, relu=True), pool))
    unit = Unit(
        kind="embedding",
        parameters=piece.parameters,
        forward=piece.forward,
        backward=piece.backward,
        saved_bytes=piece.saved_bytes,
        backward_bytes=2 * wide.bytes,
        output_bytes=output.bytes,
        buffer_bytes=buffer_bytes(piece),
    )
    return unit, output


def _head(model: ResNet, images: Images, kit: Kit) -> Unit:
    """Mean over pixels, the classifier, and cross-entropy on the few logits."""
    batch, channels, element, classes = images.batch, images.channels, images.element, model.classes
    weight = Parameter(name="fc.weight", elements=classes * channels, total=classes * channels)
    bias = Parameter(name="fc.bias", elements=classes, total=classes, vector=True)
    pooled, logits = batch * channels * element, batch * classes
    cast: tuple[MemoryBound, ...] = ()
    if kit.cast_from_bytes not in (0, element):
        cast = (MemoryBound(name="fc.weight.cast", bytes=weight.elements * (kit.cast_from_bytes + element)),)
    return Unit(
        kind="head",
        parameters=(weight, bias),
        forward=(
            MemoryBound(name="avgpool", bytes=images.bytes + pooled),
            *cast,
            Gemm(name="fc", m=batch, n=classes, k=channels, dtype=kit.dtype),
            MemoryBound(name="loss", bytes=logits * (element + 2 * FP32), pattern="softmax", kernels=2),
        ),
        backward=(
            MemoryBound(name="loss.backward", bytes=logits * (element + FP32), kernels=2),
            Gemm(name="fc.dgrad", m=batch, n=channels, k=classes, dtype=kit.dtype, layout="nn"),
            Gemm(name="fc.wgrad", m=classes, n=channels, k=batch, dtype=kit.dtype, layout="nt"),
            MemoryBound(name="fc.bias_gradient", bytes=logits * element),
            ready(weight, bias),
            MemoryBound(name="avgpool.backward", bytes=images.bytes + pooled),
        ),
        saved_bytes=images.bytes + pooled + (weight.elements * element if cast else 0),  # the last ReLU's output too
        logits_bytes=logits * (element + FP32),
        backward_bytes=logits * FP32,
    )
