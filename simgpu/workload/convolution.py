"""Convolutions as implicit GEMMs, and the batch norms and pools between them, in channels-last layout."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.dtypes import DType
from simgpu.workload.op import Gemm, MemoryBound
from simgpu.workload.piece import Piece, blocking, ready
from simgpu.workload.unit import Parameter, PassItem

FP32 = 4  # bytes; statistics are in fp32


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Square feature maps of one micro-batch.

    Parameters
    ----------
    batch : int
    size : int, pixels
        Height and width.
    channels : int
    element : int, bytes

    Examples
    --------
    >>> Images(batch=2, size=4, channels=3, element=2).bytes
    192
    """

    batch: int
    size: int
    channels: int
    element: int

    @property
    def pixels(self) -> int:
        """Pixels of all images together."""
        return self.batch * self.size**2

    @property
    def elements(self) -> int:
        """Numbers in the tensor."""
        return self.pixels * self.channels

    @property
    def bytes(self) -> int:
        """Size of the tensor."""
        return self.elements * self.element


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A square convolution without bias, padded by half its kernel.

    Parameters
    ----------
    name : str
    images : Images
        Its input.
    channels, kernel, stride : int
        Output channels, width of the window, and its step.
    dtype : DType
    cast_from_bytes : int
        Storage of the weights where autocast copies them to ``dtype`` every forward; 0 where they are stored in it.

    Notes
    -----
    Implicit GEMM (arXiv 1410.0759, cuDNN): m = batch x output pixels, n = output channels, k = input channels x
    kernel^2. The window's copies of a pixel are made on the chip: memory sees input, weights and output once. Both
    gradients have as many FLOPs.

    Examples
    --------
    >>> first = Convolution(name="conv1", images=Images(batch=1, size=224, channels=3, element=2), channels=64,
    ...                     kernel=7, stride=2, dtype=DType.BF16)
    >>> [(op.m, op.n, op.k) for op in first.gemms()][0], first.output.size
    ((12544, 64, 147), 112)
    """

    name: str
    images: Images
    channels: int
    kernel: int
    stride: int = 1
    dtype: DType = DType.BF16
    cast_from_bytes: int = 0

    @property
    def output(self) -> Images:
        """The output of ceil(size / stride) pixels a side."""
        size = -(-self.images.size // self.stride)
        return Images(batch=self.images.batch, size=size, channels=self.channels, element=self.images.element)

    @property
    def weight(self) -> Parameter:
        """The kernel."""
        elements = self.channels * self.images.channels * self.kernel**2
        return Parameter(name=f"{self.name}.weight", elements=elements, total=elements)

    def gemms(self) -> tuple[Gemm, Gemm, Gemm]:
        """Return forward, input gradient and weight gradient."""
        rows, out, deep = self.output.pixels, self.channels, self.images.channels * self.kernel**2
        stored = self.images.elements + self.weight.elements + self.output.elements
        return (
            Gemm(name=self.name, m=rows, n=out, k=deep, dtype=self.dtype, stored=stored),
            Gemm(name=f"{self.name}.dgrad", m=rows, n=deep, k=out, dtype=self.dtype, layout="nn", stored=stored),
            Gemm(name=f"{self.name}.wgrad", m=out, n=deep, k=rows, dtype=self.dtype, layout="nt", stored=stored),
        )

    def piece(self, *, input_gradient: bool = True) -> Piece:
        """Return the layer; it keeps its input.

        Parameters
        ----------
        input_gradient : bool
            False for the first layer, whose input is data.
        """
        forward, dgrad, wgrad = self.gemms()
        weight, element = self.weight, self.images.element
        cast: tuple[MemoryBound, ...] = ()
        if self.cast_from_bytes not in (0, element):
            moved = weight.elements * (self.cast_from_bytes + element)
            cast = (MemoryBound(name=f"{weight.name}.cast", bytes=moved),)
        return Piece(
            parameters=(weight,),
            forward=(*cast, forward),
            backward=(*((dgrad,) if input_gradient else ()), wgrad, ready(weight)),
            saved_bytes=self.images.bytes + (weight.elements * element if cast else 0),
        )


def batch_norm(name: str, images: Images, *, relu: bool, replicas: int = 1) -> Piece:
    """Return a batch norm, and the ReLU after it where there is one; each keeps what its backward reads.

    Parameters
    ----------
    name : str
        Prefix of ops and parameters.
    images : Images
    relu : bool
    replicas : int
        Ranks whose images are normalised together (SyncBatchNorm); 1 for a rank's own.

    Notes
    -----
    Bytes per element, with E: statistics read the input once and normalising reads it again and writes (3E); backward
    reads input and gradient for two sums, then again to write the input gradient (5E). ReLU in place reads and writes
    (2E), backward reads output and gradient and writes (3E). Kept: the norm's input; ReLU's output is the next
    layer's input, kept there.

    Together, forward gathers every rank's means, deviations and count in fp32 between its two passes, and backward
    reduces the two sums per channel; both are waited for, on the communicator of the gradients' reductions
    (pytorch/pytorch torch/nn/modules/_functions.py SyncBatchNorm).

    Examples
    --------
    >>> piece = batch_norm("bn1", Images(batch=1, size=2, channels=4, element=2), relu=True)
    >>> [(op.name, op.bytes) for op in piece.forward]
    [('bn1', 96), ('bn1.relu', 64)]
    """
    weight = Parameter(name=f"{name}.weight", elements=images.channels, total=images.channels, vector=True)
    bias = Parameter(name=f"{name}.bias", elements=images.channels, total=images.channels, vector=True)
    size = images.bytes
    activation = (MemoryBound(name=f"{name}.relu", bytes=2 * size),) if relu else ()
    gradient = (MemoryBound(name=f"{name}.relu.backward", bytes=3 * size),) if relu else ()
    if replicas > 1:
        sums = FP32 * 2 * images.channels
        normalise: tuple[PassItem, ...] = (
            MemoryBound(name=f"{name}.statistics", bytes=size, pattern="norm"),
            *blocking("all_gather", replicas * (sums + FP32), f"{name}.gather", "dp"),
            MemoryBound(
                name=name, bytes=2 * size, pattern="norm", kernels=2
            ),  # the ranks' statistics joined, then used
        )
        backward: tuple[PassItem, ...] = (
            MemoryBound(name=f"{name}.sums.backward", bytes=2 * size, pattern="norm"),
            *blocking("all_reduce", sums, f"{name}.reduce", "dp"),
            MemoryBound(name=f"{name}.backward", bytes=3 * size, pattern="norm"),
        )
    else:
        normalise = (MemoryBound(name=name, bytes=3 * size, pattern="norm", kernels=2),)
        backward = (MemoryBound(name=f"{name}.backward", bytes=5 * size, pattern="norm", kernels=2),)
    return Piece(
        parameters=(weight, bias),
        forward=(*normalise, *activation),
        backward=(*gradient, *backward, ready(weight, bias)),
        saved_bytes=size,
    )
