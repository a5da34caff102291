"""When the CPU issues work, and where a framework makes it wait for the GPU."""

from __future__ import annotations

from simgpu.dtypes import DType
from simgpu.parallel.strategy import Strategy
from simgpu.workload.architecture import Architecture
from simgpu.workload.host_costs import HostCosts
from simgpu.workload.synthetic import SyntheticModel
from simgpu.workload.training import Training


def issuing_host(model: Architecture | SyntheticModel, host: HostCosts) -> HostCosts | None:
    """Return what the CPU needs to issue a step; None when that is nothing.

    A synthetic model has stages of given durations, not kernels: nothing to issue.

    Examples
    --------
    >>> issuing_host(SyntheticModel(name="s", stages=1, forward_ns=(1,), backward_ns=(1,)), HostCosts()) is None
    True
    """
    return None if isinstance(model, SyntheticModel) or host.free else host


def norm_is_read(strategy: Strategy, training: Training) -> bool:
    """Whether the CPU reads a number that all gradients enter before it issues the optimizer step.

    Notes
    -----
    Megatron reads the gradients' norm (``total_norm.item()``, NVIDIA/Megatron-LM core/optimizer/clip_grads.py),
    DeepSpeed its overflow check (deepspeedai/DeepSpeed runtime/zero/stage_1_and_2.py and stage3.py), PyTorch's
    GradScaler, which only fp16 needs, whether it found infinities (pytorch/pytorch torch/amp/grad_scaler.py).
    PyTorch's own clipping reads nothing, and a loss is logged every so many steps: neither stops the CPU here.

    Examples
    --------
    >>> from simgpu.dtypes import DType
    >>> bf16 = Training(sequence_length=1, micro_batch_size=1, accumulation=1, precision=DType.BF16)
    >>> norm_is_read(Strategy(dp=8, data_parallel="ddp"), bf16), norm_is_read(Strategy(tp=8), bf16)
    (False, True)
    """
    return strategy.megatron or strategy.data_parallel.startswith("zero") or training.precision == DType.FP16
