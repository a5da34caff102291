"""What the optimizer does once per step, as ops."""

from __future__ import annotations

from simgpu.workload.op import MemoryBound
from simgpu.workload.training import Training

TENSORS_PER_LAUNCH = 110  # of a multi-tensor kernel: NVIDIA/apex csrc/multi_tensor_apply.cuh
MOMENT_BYTES = 4  # fp32
MOMENTS = {"adamw": 2, "sgd": 1}


def update_bytes_per_parameter(training: Training) -> int:
    """Return the memory traffic of a fused optimizer, bytes per parameter.

    Notes
    -----
    Reads gradient, moments and master (the parameter itself where there is none); writes moments, master and
    parameter. Adam: 28 B with fp32 master and 16-bit gradient and parameter, 30 B with fp32 gradient, 28 B all in
    fp32; SGD with momentum in fp32: 20 B.

    Examples
    --------
    >>> update_bytes_per_parameter(Training(sequence_length=1, micro_batch_size=1, accumulation=1))
    28
    """
    parameter, gradient = training.param_dtype.bytes, training.grad_dtype.bytes
    moments = 2 * MOMENTS[training.optimizer] * MOMENT_BYTES
    if training.master_dtype is None:
        return gradient + moments + 2 * parameter
    return gradient + moments + 2 * training.master_dtype.bytes + parameter


def optimizer_ops(
    elements: int, training: Training, tensors: int, *, zero_gradients: bool = False
) -> tuple[MemoryBound, ...]:
    """Return the optimizer step of a rank, in order.

    Parameters
    ----------
    elements : int
        Parameters whose optimizer state this rank holds.
    training : Training
    tensors : int
        How many tensors they are in; a launch takes up to 110.
    zero_gradients : bool
        Gradients live in buffers that are cleared (Megatron) instead of dropped (``zero_grad(set_to_none=True)``).

    Returns
    -------
    tuple of MemoryBound
        ``grad_norm`` (reads the gradients), ``grad_clip`` (reads and writes them: PyTorch scales whether or not the
        norm is above the limit), the update, and ``zero_grad`` (writes them) where asked for. All of class
        ``optimizer``. Empty for optimizer ``none`` and for a rank without parameters. The one-number all-reduce of
        the norm is the caller's.

    Examples
    --------
    >>> training = Training(sequence_length=1, micro_batch_size=1, accumulation=1)
    >>> [(op.name, op.bytes) for op in optimizer_ops(10, training, 1)]
    [('grad_norm', 40), ('grad_clip', 80), ('adamw', 280)]
    """
    if training.optimizer == "none" or elements == 0:
        return ()
    gradient = elements * training.grad_dtype.bytes
    launches = -(-tensors // TENSORS_PER_LAUNCH)

    def op(name: str, moved_bytes: int) -> MemoryBound:
        return MemoryBound(name=name, bytes=moved_bytes, op_class="optimizer", kernels=launches)

    update = op(training.optimizer, elements * update_bytes_per_parameter(training))
    step = (op("grad_norm", gradient), op("grad_clip", 2 * gradient), update)
    return (*step, op("zero_grad", gradient)) if zero_gradients else step
