"""A residual block of convolutions, and what all of a network's layers share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simgpu.dtypes import DType
from simgpu.workload.convolution import Convolution, Images, batch_norm
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.training import Training
from simgpu.workload.unit import Unit

EXPANSION = {"basic": 1, "bottleneck": 4}  # output channels of a block over its inner ones
FP32 = 4  # bytes
COUNTER_BYTES = 8  # int64 count of batches


@dataclass(frozen=True, slots=True)
class Kit:
    """What every layer needs to know of the training.

    Parameters
    ----------
    training : Training
    cast_from_bytes : int
        As `Convolution` has it.
    replicas : int
        Data-parallel ranks.
    """

    training: Training
    cast_from_bytes: int
    replicas: int = 1

    def batch_norm(self, name: str, images: Images, *, relu: bool) -> Piece:
        """Return a batch norm, over the images of all replicas where the training says so."""
        together = self.replicas if self.training.sync_batch_norm else 1
        return batch_norm(name, images, relu=relu, replicas=together)

    def convolution(self, name: str, images: Images, channels: int, kernel: int, stride: int = 1) -> Convolution:
        """Return a convolution in the training's precision."""
        return Convolution(
            name=name,
            images=images,
            channels=channels,
            kernel=kernel,
            stride=stride,
            dtype=self.dtype,
            cast_from_bytes=self.cast_from_bytes,
        )

    @property
    def dtype(self) -> DType:
        """Arithmetic and storage of activations."""
        return self.training.precision


def residual_block(block: str, name: str, images: Images, width: int, stride: int, kit: Kit) -> tuple[Piece, Images]:
    """Return the branch, the shortcut (a strided 1 x 1 convolution where shapes differ), their sum and a ReLU.

    Parameters
    ----------
    block : str
        ``basic`` or ``bottleneck``.
    name : str
        Prefix of ops and parameters.
    images : Images
        The block's input.
    width, stride : int
        Inner channels, and the step that makes maps smaller.
    kit : Kit

    Returns
    -------
    Piece, Images
        The block and its output.

    Notes
    -----
    The sum is written over the branch's output (r2 r2 w2) and the ReLU over the sum, as torchvision does; ReLU's
    output is kept by the next layer, whose input it is.

    Examples
    --------
    >>> kit = Kit(Training(sequence_length=1, micro_batch_size=1, accumulation=1), cast_from_bytes=0)
    >>> piece, output = residual_block("bottleneck", "layer2.0", Images(batch=1, size=56, channels=256, element=2), 128,
    ...                                2, kit)
    >>> output.size, output.channels, piece.parameters[-3].name
    (28, 512, 'layer2.0.downsample.0.weight')
    """
    kernels = (3, 3) if block == "basic" else (1, 3, 1)
    widths = (width,) * (len(kernels) - 1) + (width * EXPANSION[block],)
    strided = 0 if block == "basic" else 1
    pieces, now = [], images
    for i, (kernel, channels) in enumerate(zip(kernels, widths, strict=True)):
        convolution = kit.convolution(f"{name}.conv{i + 1}", now, channels, kernel, stride if i == strided else 1)
        now = convolution.output
        pieces += [convolution.piece(), kit.batch_norm(f"{name}.bn{i + 1}", now, relu=i < len(kernels) - 1)]
    add = Piece(
        forward=(
            MemoryBound(name=f"{name}.add", bytes=3 * now.bytes),
            MemoryBound(name=f"{name}.relu", bytes=2 * now.bytes),
        ),
        backward=(MemoryBound(name=f"{name}.relu.backward", bytes=3 * now.bytes),),
    )
    branch = Piece.chain(pieces)
    joined = MemoryBound(name=f"{name}.gradient_sum", bytes=3 * images.bytes)
    if stride == 1 and images.channels == now.channels:
        piece = Piece.chain((branch, add))
        return replace(piece, backward=(*piece.backward, joined)), now
    projection = kit.convolution(f"{name}.downsample.0", images, now.channels, 1, stride)
    shortcut = Piece.chain((projection.piece(), kit.batch_norm(f"{name}.downsample.1", now, relu=False)))
    piece = Piece.chain((branch, shortcut, add))
    return replace(
        piece,
        backward=(*piece.backward, joined),
        saved_bytes=piece.saved_bytes - images.bytes,  # branch and shortcut keep the same input
    ), now


def residual_unit(piece: Piece, images: Images, output: Images, training: Training) -> Unit:
    """Return a block as a unit, with the recomputation that the training asks for.

    Examples
    --------
    >>> images = Images(batch=1, size=8, channels=64, element=2)
    >>> training = Training(sequence_length=1, micro_batch_size=1, accumulation=1, recompute="full")
    >>> residual_unit(Piece(saved_bytes=10**6), images, images, training).saved_bytes == images.bytes
    True
    """
    full = training.recompute == "full"
    return Unit(
        kind="block",
        parameters=piece.parameters,
        forward=piece.forward,
        backward=piece.backward,
        recompute=piece.forward if full else (),
        saved_bytes=images.bytes if full else piece.saved_bytes,
        recomputed_bytes=piece.saved_bytes - images.bytes if full else 0,
        backward_bytes=2 * max(images.bytes, output.bytes),
        output_bytes=output.bytes,
        buffer_bytes=buffer_bytes(piece),
    )


def buffer_bytes(piece: Piece) -> int:
    """Return the size of every batch norm's running mean and variance in fp32, and of its count of batches.

    Examples
    --------
    >>> buffer_bytes(batch_norm("bn1", Images(batch=1, size=8, channels=64, element=2), relu=False))
    520
    """
    biases = [parameter for parameter in piece.parameters if parameter.name.endswith(".bias")]  # convolutions have none
    return sum(2 * FP32 * bias.elements + COUNTER_BYTES for bias in biases)
