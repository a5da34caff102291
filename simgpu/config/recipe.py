"""The number formats of a run: what the user says, else what the framework does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simgpu.config.adaptation_block import LoraBlock
from simgpu.config.training_block import TrainingBlock
from simgpu.dtypes import DType
from simgpu.parallel.data_parallel_options import FSDP_KINDS
from simgpu.workload.architecture import Architecture
from simgpu.workload.encoder import Encoder
from simgpu.workload.encoder_decoder import EncoderDecoder
from simgpu.workload.lora import Lora
from simgpu.workload.model import Model
from simgpu.workload.software import Software
from simgpu.workload.synthetic import SyntheticModel
from simgpu.workload.training import Training

_COPIED: Final = ("zero1", "zero2")
"""Kinds whose optimizer updates a copy of the weights, whatever their format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """Storage of weights and gradients, format of gradient reductions, and the optimizer's master copy."""

    param: DType
    grad: DType
    reduce: DType
    master: DType | None


def framework_formats(
    data_parallel: str,
    *,
    model_parallel: bool,
    precision: DType,
    param: DType | None = None,
    grad: DType | None = None,
) -> Formats:
    """Return the formats that a framework keeps by default.

    Parameters
    ----------
    data_parallel : str
        A name of `simgpu.parallel.data_parallel.STRATEGIES`.
    model_parallel : bool
        Whether tp or pp is above 1: with none or ddp, the framework is then Megatron.
    precision : DType
        Arithmetic of the matrix products.
    param, grad : DType, optional
        Storage of weights and gradients where it was chosen. PyTorch's gradients are stored as its weights are, and
        what DDP and Megatron reduce is the gradients themselves.

    Returns
    -------
    Formats

    Notes
    -----
    With AdamW and bf16, bytes per parameter of weights + gradients + optimizer state: DDP under autocast 4+4+8; FSDP
    4+4+8, its reductions in bf16; DeepSpeed 2+2+12 (deepspeedai/DeepSpeed runtime/bf16_optimizer.py);
    Megatron 2+4+12 (NVIDIA/Megatron-LM docs, dist_optimizer.md: bf16 parameters, fp32 gradients: 18 bytes).
    In fp32 or tf32 everything is stored in fp32. DeepSpeed's ZeRO-1 and ZeRO-2 update a copy of a rank's weights in
    fp32 too (runtime/zero/stage_1_and_2.py, single_partition_of_fp32_groups); ZeRO-3 updates the weights themselves
    (runtime/zero/stage3.py, _create_fp32_partitions).

    Examples
    --------
    >>> framework_formats("zero3", model_parallel=False, precision=DType.BF16).param.bytes
    2
    """
    fp32 = DType.FP32
    narrow = precision.bytes < fp32.bytes
    computed = precision if narrow else fp32
    reduce, master = None, fp32 if narrow else None
    if data_parallel.startswith("zero"):
        param, grad, reduce = param or computed, grad or computed, computed
    elif data_parallel in FSDP_KINDS:
        param, reduce, master = param or fp32, computed, None
    elif model_parallel or data_parallel == "distributed_optimizer":
        param, grad = param or computed, grad or fp32
    else:
        param, master = param or fp32, None
    grad = grad or param
    return Formats(
        param=param,
        grad=grad,
        reduce=reduce or grad,
        # fp32 weights are their own master, but not in ZeRO-1 and ZeRO-2
        master=fp32 if data_parallel in _COPIED else None if param is fp32 else master,
    )


def default_dropout(model: Architecture | SyntheticModel, software: Software) -> float:
    """Return the dropout probability of a model when none is given: the framework's for GPT, BERT and T5, else 0.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.software import PRESETS
    >>> [default_dropout(bundled_model(name), PRESETS["megatron-2021"]) for name in ("gpt3-175b", "llama-2-7b")]
    [0.1, 0.0]
    """
    drops = isinstance(model, Encoder | EncoderDecoder) or (isinstance(model, Model) and model.positions == "learned")
    return software.dropout if drops else 0.0


def build_training(
    block: TrainingBlock,
    *,
    micro_batch_size: int,
    accumulation: int,
    data_parallel: str,
    model_parallel: bool,
    dropout: float = 0.0,
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
    dropout : float
        Probability when the block has none.

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
    fp8 = block.precision == "fp8"
    precision = DType.BF16 if fp8 else DType(block.precision)
    kept = framework_formats(
        data_parallel,
        model_parallel=model_parallel,
        precision=precision,
        param=DType(block.param_dtype) if block.param_dtype else None,
        grad=DType(block.grad_dtype) if block.grad_dtype else None,
    )
    master = kept.master
    if block.master_dtype is not None:
        master = None if block.master_dtype == "none" else DType(block.master_dtype)
    return Training(
        sequence_length=block.sequence_length or 1,
        micro_batch_size=micro_batch_size,
        accumulation=accumulation,
        precision=precision,
        param_dtype=kept.param,
        grad_dtype=kept.grad,
        reduce_dtype=DType(block.reduce_dtype) if block.reduce_dtype else kept.reduce,
        master_dtype=master,
        optimizer=block.optimizer,
        recompute=block.recompute,
        recompute_layers=block.recompute_layers,
        moe_imbalance=block.moe_imbalance,
        sync_batch_norm=block.sync_batch_norm,
        gather_with_grad=block.gather_with_grad,
        local_loss=block.local_loss,
        target_length=block.target_length,
        dropout=dropout if block.dropout is None else block.dropout,
        fp8=fp8,
        frozen_share=0.0 if block.frozen is None or isinstance(block.frozen, list) else block.frozen,
        frozen_names=tuple(block.frozen) if isinstance(block.frozen, list) else (),
        lora=None if block.lora is None else _lora(block.lora),
    )


def _lora(block: LoraBlock) -> Lora:
    return Lora(rank=block.rank, targets=tuple(block.targets), modules_to_save=tuple(block.modules_to_save))
