"""Casts around an fp8 GEMM: scales per tensor, operands in fp8, results in the activations' format.

============================ ================================================================================
tensor                       memory traffic per element, E bytes in the activations' format
============================ ================================================================================
input, output gradient       E + 1, and 1 more for the transposed copy that dgrad or wgrad reads: the fp8 tensor
                             cores of Hopper and Ada multiply only operands whose inner dimension is contiguous
largest value of a tensor    E before the cast with current scaling; nothing with delayed scaling
gathered input               2 for the transposed copy of what sequence parallelism gathers, in fp8, once more
weight, whole on the rank    once per step, read as stored and written twice in fp8; both copies are kept
weight, gathered for use     E + 1 in every forward, and transposed in every backward; no copy is kept
============================ ================================================================================

NVIDIA/TransformerEngine pytorch/module/linear.py and layernorm_linear.py keep the fp8 input for backward instead of
the original. That casts may be fused into the norm or activation before them is left out, as are the one-number
reductions of the largest values.
"""

from __future__ import annotations

from simgpu.workload.op import MemoryBound
from simgpu.workload.shard import Shard
from simgpu.workload.unit import Parameter

FP8 = 1  # bytes per element
COPIES = 2  # as it is and transposed


def cast_activation(shard: Shard, name: str, elements: int, *, transposed: bool) -> tuple[MemoryBound, ...]:
    """Return the kernels that turn a tensor into fp8.

    Parameters
    ----------
    shard : Shard
    name : str
        Of the tensor.
    elements : int
    transposed : bool
        A transposed copy is written too.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("llama-2-7b"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1, fp8=True))
    >>> [(op.name, op.bytes) for op in cast_activation(shard, "x", 100, transposed=True)]
    [('x.amax', 200), ('x.cast', 400)]
    """
    written = FP8 * (COPIES if transposed else 1)
    cast = MemoryBound(name=f"{name}.cast", bytes=elements * (shard.element + written))
    if shard.software.fp8_scaling == "delayed":
        return (cast,)
    return (MemoryBound(name=f"{name}.amax", bytes=elements * shard.element), cast)


def transpose_gathered(name: str, elements: int) -> MemoryBound:
    """Return the transposition of a gathered fp8 tensor."""
    return MemoryBound(name=f"{name}.transpose", bytes=elements * 2 * FP8)


def weight_casts(shard: Shard, weight: Parameter, phase: str) -> tuple[MemoryBound, ...]:
    """Return the cast of a gathered weight in one pass; empty where fp8 copies are kept over the step."""
    if not shard.gathered_weights:
        return ()
    return (MemoryBound(name=f"{weight.name}.{phase}_cast", bytes=weight.elements * (shard.element + FP8)),)


def kept_copy_bytes(elements: int) -> int:
    """Return the memory of the fp8 copies of whole weights.

    Examples
    --------
    >>> kept_copy_bytes(10)
    20
    """
    return elements * FP8 * COPIES
