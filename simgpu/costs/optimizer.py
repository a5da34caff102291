"""What the optimizer does once per step, as ops.

=========== ====================================================================================================
kernels     per step of an optimizer with fp32 moments, bytes per parameter
=========== ====================================================================================================
fused       norm of the gradients; their scaling, whether or not the norm is above the limit
            (torch.nn.utils.clip_grad_norm_); one multi-tensor kernel that reads gradient, moments and master (the
            parameter itself where there is none) and writes moments, master and parameter: Adam 28-30, SGD with
            momentum 20 in fp32
foreach     the same, but one multi-tensor kernel per arithmetic step: AdamW 80, Adam 72, SGD 32, Adafactor 68
            (PyTorch torch/optim/{adamw,adam,sgd}.py, _adafactor.py); a master copy adds casts of gradient and parameter
for_loop    as foreach, every step a kernel per tensor
megatron    gradients copied to fp32 unless they are, unscaled when training is fp16, their norm, a fused update in
            fp32 (Adam 28), parameters copied back: Adam from fp16 gradients 52 (NVIDIA/Megatron-LM
            megatron/optimizer/{optimizer,clip_grads}.py). Gradients are scaled only when their norm is above the
            limit; it is taken to be below
=========== ====================================================================================================

Adafactor has no fused kernel: ``fused`` and ``megatron`` run it as ``foreach``. 8-bit Adam is one kernel per tensor in
all of them (bitsandbytes-foundation/bitsandbytes optim/optimizer.py).
"""

from __future__ import annotations

from simgpu.dtypes import DType
from simgpu.workload.op import MemoryBound
from simgpu.workload.software import DEFAULT, Software
from simgpu.workload.training import MOMENT_BYTES, Training

TENSORS_PER_LAUNCH = 110  # of a multi-tensor kernel: NVIDIA/apex csrc/multi_tensor_apply.cuh
NORM = "grad_norm"
FP32 = 4
STEPS = {
    "adamw": (
        ("decay", 8),
        ("first_moment", 12),
        ("second_moment_decay", 8),
        ("second_moment", 12),
        ("root", 8),
        ("bias_correction", 8),
        ("epsilon", 8),
        ("update", 16),
    ),
    "sgd": (("momentum_decay", 8), ("momentum", 12), ("update", 12)),
    "adafactor": (
        ("parameter_norm", 4),
        ("row_norm", 4),
        ("column_norm", 4),
        ("outer_product", 4),
        ("divide", 8),
        ("clamp", 8),
        ("root", 8),
        ("scale_gradient", 12),
        ("update_norm", 4),
        ("update", 12),
    ),
}
"""Arithmetic steps of unfused optimizers and their traffic, bytes per parameter, everything in fp32."""
STEPS["adam"] = STEPS["adamw"][1:]


def update_bytes_per_parameter(training: Training) -> int:
    """Return the memory traffic of a fused update, bytes per parameter.

    Notes
    -----
    Adam: 28 B with fp32 master and 16-bit gradient and parameter, 30 B with fp32 gradient, 28 B all in fp32; SGD with
    momentum in fp32: 20 B; 8-bit Adam in fp32: 16 B.

    Examples
    --------
    >>> update_bytes_per_parameter(Training(sequence_length=1, micro_batch_size=1, accumulation=1))
    28
    """
    parameter, gradient = training.param_dtype.bytes, training.grad_dtype.bytes
    moments = 2 * MOMENT_BYTES[training.optimizer]
    if training.master_dtype is None:
        return gradient + moments + 2 * parameter
    return gradient + moments + 2 * training.master_dtype.bytes + parameter


def optimizer_ops(
    elements: int,
    training: Training,
    tensors: int,
    *,
    zero_gradients: bool = False,
    software: Software = DEFAULT,
) -> tuple[MemoryBound, ...]:
    """Return the optimizer step of a rank, in order.

    Parameters
    ----------
    elements : int
        Parameters whose optimizer state this rank holds.
    training : Training
    tensors : int
        How many tensors they are in; a multi-tensor launch takes up to 110.
    zero_gradients : bool
        Gradients live in buffers that are cleared (Megatron) instead of dropped (``zero_grad(set_to_none=True)``).
    software : Software
        Whose optimizer kernels.

    Returns
    -------
    tuple of MemoryBound
        All of class ``optimizer``; the one named ``grad_norm`` completes this rank's part of the norm, whose one-number
        all-reduce is the caller's. Empty for optimizer ``none`` and for a rank without parameters.

    Examples
    --------
    >>> training = Training(sequence_length=1, micro_batch_size=1, accumulation=1)
    >>> [(op.name, op.bytes) for op in optimizer_ops(10, training, 1)]
    [('grad_norm', 40), ('grad_clip', 80), ('adamw', 280)]
    """
    if training.optimizer == "none" or elements == 0:
        return ()
    gradient = training.grad_dtype.bytes
    launches = -(-tensors // TENSORS_PER_LAUNCH)

    def op(name: str, bytes_per_parameter: int, kernels: int = launches) -> MemoryBound:
        moved = elements * bytes_per_parameter
        return MemoryBound(name=name, bytes=moved, op_class="optimizer", kernels=kernels)

    master = training.master_dtype is not None
    kernels = software.optimizer
    name = training.optimizer
    if kernels == "megatron" and name in ("adamw", "adam", "sgd") and (master or training.param_dtype is DType.FP32):
        copied = gradient if gradient != FP32 else 0
        step = [
            *([op("grad_copy", copied + FP32)] if copied else []),
            *([op("grad_unscale", 2 * FP32)] if training.precision is DType.FP16 else []),
            op(NORM, FP32),
            op(name, FP32 + 2 * MOMENT_BYTES[name] + 2 * FP32),
            *([op("weight_copy", FP32 + training.param_dtype.bytes)] if master else []),
        ]
    else:
        step = [op(NORM, gradient), op("grad_clip", 2 * gradient)]
        if name == "adam8bit":
            step.append(op(name, update_bytes_per_parameter(training), tensors))
        elif name != "adafactor" and kernels in ("fused", "megatron"):
            step.append(op(name, update_bytes_per_parameter(training)))
        else:
            each = tensors if kernels == "for_loop" else launches
            if master and gradient != FP32:
                step.append(op("grad_copy", gradient + FP32, each))
            step += [op(f"{name}.{part}", size, each) for part, size in STEPS[name]]
            if master:
                step.append(op("weight_copy", FP32 + training.param_dtype.bytes, each))
    return (*step, op("zero_grad", gradient)) if zero_gradients else tuple(step)


def working_bytes(elements: int, largest: int, training: Training, software: Software = DEFAULT) -> int:
    """Return the tensors that exist only while the optimizer runs.

    Parameters
    ----------
    elements : int
        Parameters whose optimizer state this rank holds.
    largest : int
        Of the largest of their tensors.
    training : Training
    software : Software
        Whose optimizer kernels.

    Notes
    -----
    Unfused Adam makes the root of the second moment, and unfused Adafactor the update, out of place: ``foreach`` for
    all parameters at once, ``for_loop`` for one tensor after the other, where Adam's root and its quotient are alive
    together (pytorch/pytorch torch/optim/adam.py, _adafactor.py). Fused kernels and SGD need nothing.

    Returns
    -------
    int, bytes

    Examples
    --------
    >>> from simgpu.workload.software import PRESETS
    >>> training = Training(sequence_length=1, micro_batch_size=1, accumulation=1)
    >>> working_bytes(1000, 600, training, PRESETS["eager"]), working_bytes(1000, 600, training, PRESETS["te"])
    (4000, 0)
    """
    name, kernels = training.optimizer, software.optimizer
    if name not in ("adamw", "adam", "adafactor") or (name != "adafactor" and kernels in ("fused", "megatron")):
        return 0
    if kernels == "for_loop":
        return FP32 * min(largest, elements) * (1 if name == "adafactor" else 2)
    return FP32 * elements
