"""The ``training`` block: batch, number formats, optimizer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from simgpu.config.block import Block
from simgpu.config.quantity import ANY_CASE, Accumulation, Batch, Count, MicroBatch, Sequence

_Precision = Annotated[Literal["bf16", "fp16", "fp32", "tf32", "fp8"], ANY_CASE]
_Storage = Annotated[Literal["fp32", "bf16", "fp16"], ANY_CASE]
_Master = Annotated[Literal["fp32", "bf16", "fp16", "none"], ANY_CASE]


class TrainingBlock(Block):
    """Batch, number formats, optimizer. Any two of the three batch fields give the third."""

    sequence_length: Sequence | None = None
    """Tokens per sequence. Needed unless the model is synthetic."""
    micro_batch_size: MicroBatch | None = None
    """Sequences per GPU and forward pass (Hugging Face: per_device_train_batch_size)."""
    global_batch_size: Batch | None = None
    """Sequences per optimizer step: micro_batch_size x dp x gradient_accumulation (DeepSpeed: train_batch_size)."""
    gradient_accumulation: Accumulation | None = None
    """Micro-batches per step and data-parallel rank; 1 when only micro_batch_size is given."""
    precision: _Precision = "bf16"
    """Arithmetic of the matrix products and storage of activations."""
    param_dtype: _Storage | None = None
    """Storage of the weights. By default what the framework does: fp32 for ddp (autocast) and fsdp, `precision` for
    zero1-3 (DeepSpeed) and for tp or pp without sharding (Megatron)."""
    grad_dtype: _Storage | None = None
    """Storage of the gradients. By default fp32 for ddp, fsdp and Megatron, `precision` for zero1-3."""
    reduce_dtype: _Storage | None = None
    """What travels in gradient reductions; gathers of sharded weights travel in `precision`. By default fp32 for ddp
    and Megatron, `precision` for fsdp and zero1-3."""
    master_dtype: _Master | None = None
    """Separate master copy kept by the optimizer; `none` when the weights are the master. By default none for ddp and
    fsdp and for fp32 weights, fp32 for zero1-3 and Megatron."""
    optimizer: Annotated[Literal["adamw", "sgd", "none", "adafactor", "adam8bit"], ANY_CASE] = "adamw"
    """`adamw`: two fp32 moments; `sgd`: one (momentum); `none`: gradients only."""
    recompute: Annotated[Literal["none", "selective", "full"], ANY_CASE] = "none"
    """Activations computed again in backward: `selective` the attention core, `full` the whole block."""
    frozen: Any = None
    """Weights that are not trained."""
    train_tokens: Count | None = None
    """Tokens of the whole training, for hours and cost; '1.4T' is fine."""
