"""The number formats of a run: what the user says, else what the framework does."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.config.training_block import TrainingBlock
from simgpu.dtypes import DType
from simgpu.workload.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """Storage of weights and gradients, format of gradient reductions, and the optimizer's master copy."""

    param: DType
    grad: DType
    reduce: DType
    master: DType | None


def framework_formats(data_parallel: str, *, model_parallel: bool, precision: DType) -> Formats:
    """Return the formats that a framework keeps by default.

    Parameters
    ----------
    data_parallel : str
        ``none``, ``ddp``, ``zero1``, ``zero2``, ``zero3`` or ``fsdp``.
    model_parallel : bool
        Whether tp or pp is above 1: with none or ddp, the framework is then Megatron.
    precision : DType
        Arithmetic of the matrix products.

    Returns
    -------
    Formats

    Notes
    -----
    With AdamW and bf16, bytes per parameter of weights + gradients + optimizer state: DDP under autocast 4+4+8; FSDP
    4+4+8, its reductions in bf16; DeepSpeed 2+2+12 (deepspeedai/DeepSpeed runtime/bf16_optimizer.py);
    Megatron 2+4+12 (NVIDIA/Megatron-LM docs, dist_optimizer.md: bf16 parameters, fp32 gradients: 18 bytes).
    In fp32 or tf32 everything is stored in fp32.

    Examples
    --------
    >>> framework_formats("zero3", model_parallel=False, precision=DType.BF16).param.bytes
    2
    """
    fp32 = DType.FP32
    if precision.bytes == fp32.bytes:
        return Formats(param=fp32, grad=fp32, reduce=fp32, master=None)
    if data_parallel.startswith("zero"):
        return Formats(param=precision, grad=precision, reduce=precision, master=fp32)
    if data_parallel == "fsdp":
        return Formats(param=fp32, grad=fp32, reduce=precision, master=None)
    if model_parallel:
        return Formats(param=precision, grad=fp32, reduce=fp32, master=fp32)
    return Formats(param=fp32, grad=fp32, reduce=fp32, master=None)


def build_training(
    block: TrainingBlock, *, micro_batch_size: int, accumulation: int, data_parallel: str, model_parallel: bool
) -> Training:
    """Complete a training recipe.

    Parameters
    ----------
    block : TrainingBlock
    micro_batch_size, accumulation : int
        As `simgpu.config.batch.solve_batch` returns them.
    data_parallel : str
    model_parallel : bool
        Whether tp or pp is above 1.

    Returns
    -------
    Training
        ``sequence_length`` is 1 when the file has none, which only a synthetic model may.

    Examples
    --------
    >>> build_training(TrainingBlock(sequence_length=4096), micro_batch_size=1, accumulation=8, data_parallel="zero1",
    ...                model_parallel=False).optimizer_bytes_per_parameter
    12
    """
    precision = DType(block.precision)
    default = framework_formats(data_parallel, model_parallel=model_parallel, precision=precision)
    param = DType(block.param_dtype) if block.param_dtype else default.param
    if block.master_dtype is not None:
        master = None if block.master_dtype == "none" else DType(block.master_dtype)
    else:
        master = None if param is DType.FP32 else default.master  # fp32 weights are their own master
    return Training(
        sequence_length=block.sequence_length or 1,
        micro_batch_size=micro_batch_size,
        accumulation=accumulation,
        precision=precision,
        param_dtype=param,
        grad_dtype=DType(block.grad_dtype) if block.grad_dtype else default.grad,
        reduce_dtype=DType(block.reduce_dtype) if block.reduce_dtype else default.reduce,
        master_dtype=master,
        optimizer=block.optimizer,
        recompute=block.recompute,
    )
