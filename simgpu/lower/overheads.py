"""Memory that a training process holds whatever its layout: what the allocator's statistics show and what they do not.

``context`` and ``communication`` lie outside PyTorch's caching allocator: they fill the card, but
``torch.cuda.max_memory_allocated`` does not show them. ``workspaces`` and ``dummy gradients`` do count there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from simgpu.hardware.gpu import Gpu
from simgpu.units import GIB, MIB
from simgpu.workload.software import Software
from simgpu.workload.unit import Unit

CONTEXT_BYTES: Final = int(0.7 * GIB)
"""CUDA context: kernels' code, stacks and printf buffers, 0.5 to 0.9 GiB (PHYSICS section 5)."""

COMMUNICATOR_BYTES: Final = int(0.35 * GIB)
"""torch.distributed and NCCL buffers of a process that is in a group: a least value, whatever there are of groups.

Reported, without the context: 0.53 GiB for a communicator of two A100 over NVLink and 0.67 GiB for one of more
(NVIDIA/nccl#964); 1.6 GB for one communicator and 6 GB for three and more (NVIDIA/nccl#864); 1.06 GB on eight H100, and
4.34 GB after an all-to-all (NVIDIA/nccl#1685). Buffers grow with channels, peers and communicators, and
communicators that are split off may share them, so that no one figure is right; this is what the smallest need.
"""

CUBLAS_WORKSPACE_BYTES: Final = (4096 * 2 + 16 * 8) << 10
"""cuBLAS workspace of one handle, ``:4096:2:16:8``; 32 MiB from Hopper on.

pytorch/pytorch aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize.
"""
HOPPER_WORKSPACE_BYTES: Final = 32 * MIB
HOPPER_AND_LATER: Final = frozenset({"Hopper", "Blackwell", "Blackwell Ultra"})
HANDLES: Final = 2
"""cuBLAS handles belong to threads: one of forward, one of autograd's backward."""
TE_WORKSPACE_BYTES: Final = 4 * MIB
"""Transformer Engine's own; 32 MiB from Hopper on (NVIDIA/TransformerEngine pytorch/cpp_extensions/gemm.py)."""


def workspace_bytes(gpu: Gpu, software: Software) -> int:
    """Return the workspaces of matrix products, which PyTorch's allocator holds for ever.

    Parameters
    ----------
    gpu : Gpu
    software : Software

    Returns
    -------
    int, bytes

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> from simgpu.workload.software import PRESETS
    >>> workspace_bytes(gpu("A100-SXM4-80GB"), PRESETS["flash"]) / MIB
    16.25
    >>> workspace_bytes(gpu("H100-SXM5-80GB"), PRESETS["te"]) / MIB
    96.0
    """
    modern = gpu.arch in HOPPER_AND_LATER
    each = HOPPER_WORKSPACE_BYTES if modern else CUBLAS_WORKSPACE_BYTES
    own = (HOPPER_WORKSPACE_BYTES if modern else TE_WORKSPACE_BYTES) if software.dummy_gradients else 0
    return HANDLES * each + own


def dummy_gradient_bytes(units: Iterable[Unit], software: Software, element: int) -> int:
    """Return the placeholders that autograd gets where a matrix product has added into the stored gradient itself.

    Notes
    -----
    Transformer Engine keeps one for every shape and number format of weights, for ever, and Megatron's own layers
    take theirs from it (NVIDIA/TransformerEngine pytorch/module/base.py, get_dummy_wgrad; NVIDIA/Megatron-LM
    core/tensor_parallel/layers.py). Equal layers share theirs; experts share one of an expert's size, left out.

    Parameters
    ----------
    units : iterable of Unit
        Of one rank.
    software : Software
    element : int
        Bytes of an activation element.

    Returns
    -------
    int, bytes

    Examples
    --------
    >>> from simgpu.workload.software import PRESETS
    >>> from simgpu.workload.unit import Parameter
    >>> up = Parameter(name="up.weight", elements=100, total=100, accumulated=True)
    >>> block = Unit(kind="block", parameters=(up,), forward=(), backward=())
    >>> dummy_gradient_bytes([block, block], PRESETS["te"], 2)
    200
    """
    if not software.dummy_gradients:
        return 0
    shapes = {
        (parameter.name, parameter.elements)
        for unit in units
        for parameter in unit.parameters
        if parameter.accumulated and not parameter.frozen and not parameter.expert
    }
    return element * sum(elements for _, elements in shapes)
