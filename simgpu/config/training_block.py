"""The ``training`` block: batch, number formats, optimizer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict

from simgpu.config.adaptation_block import Frozen, LoraBlock
from simgpu.config.batch_names import BATCH_NAMES
from simgpu.config.block import Block
from simgpu.config.quantity import ANY_CASE, Accumulation, Batch, Count, Dropout, Flag, MicroBatch, Ratio, Sequence

_Precision = Annotated[Literal["bf16", "fp16", "fp32", "tf32", "fp8"], ANY_CASE]
_Storage = Annotated[Literal["fp32", "bf16", "fp16"], ANY_CASE]
_Master = Annotated[Literal["fp32", "bf16", "fp16", "none"], ANY_CASE]


def _with_batch_names(schema: dict[str, Any]) -> None:
    """Tell editors the names of other tools, which a draft translates."""
    known = schema["properties"]
    for name, own in BATCH_NAMES.items():
        known[name] = {**known[own], "description": f"Another name of {own} (Hugging Face, DeepSpeed)."}


class TrainingBlock(Block):
    """Batch, number formats, optimizer. Any two of the three batch fields give the third."""

    model_config = ConfigDict(json_schema_extra=_with_batch_names)

    sequence_length: Sequence | None = None
    """Tokens per sequence. Needed unless the model is synthetic."""
    micro_batch_size: MicroBatch | None = None
    """Sequences per GPU and forward pass (Hugging Face: per_device_train_batch_size, DeepSpeed:
    train_micro_batch_size_per_gpu, which are understood as well)."""
    global_batch_size: Batch | None = None
    """Sequences per optimizer step: micro_batch_size x dp x gradient_accumulation (DeepSpeed: train_batch_size, which
    is understood as well)."""
    gradient_accumulation: Accumulation | None = None
    """Micro-batches per step and data-parallel rank; 1 when only micro_batch_size is given (Hugging Face and DeepSpeed:
    gradient_accumulation_steps, which is understood as well)."""
    precision: _Precision = "bf16"
    """Arithmetic of the matrix products and storage of activations. `fp8`: the blocks' matrix products in fp8 and
    everything else, head and embedding included, in bf16; needs a GPU and a software generation with fp8."""
    param_dtype: _Storage | None = None
    """Storage of the weights. By default what the framework does: fp32 for ddp (autocast) and fsdp, `precision` for
    zero1-3 (DeepSpeed), distributed_optimizer and tp or pp without sharding (Megatron)."""
    grad_dtype: _Storage | None = None
    """Storage of the gradients. By default that of the weights for ddp and fsdp, fp32 for Megatron, `precision` for
    zero1-3."""
    reduce_dtype: _Storage | None = None
    """What travels in gradient reductions; gathers of sharded weights travel in `precision`. By default that of
    the gradients for ddp and Megatron, `precision` for fsdp and zero1-3."""
    master_dtype: _Master | None = None
    """Separate master copy kept by the optimizer; `none` when the weights are the master. By default none for ddp and
    fsdp and for fp32 weights, fp32 for zero3 and Megatron; fp32 for zero1 and zero2 beside fp32 weights too."""
    optimizer: Annotated[Literal["adamw", "adam", "sgd", "adafactor", "adam8bit", "none"], ANY_CASE] = "adamw"
    """`adamw`, `adam`: two fp32 moments; `sgd`: one (momentum); `adafactor`: factored, next to none; `adam8bit`: two in
    8 bits; `none`: gradients only."""
    recompute: Annotated[Literal["none", "selective", "full"], ANY_CASE] = "none"
    """Activations computed again in backward: `selective` the attention core, `full` the whole block."""
    recompute_layers: Count | None = None
    """Recompute only the first so many layers of every pipeline stage (Megatron: recompute_num_layers with
    recompute_method block); all when left out."""
    dropout: Dropout | None = None
    """Dropout probability of hidden layers and attention. By default 0.1 for models with learned positions in the
    software generations eager and megatron-2021 to megatron-2023 (their frameworks' default), otherwise 0."""
    moe_imbalance: Ratio = 1.0
    """Tokens of a layer's busiest expert over the mean of all; 1 is perfect balance."""
    sync_batch_norm: Flag = False
    """Normalise over the images of all data-parallel ranks (SyncBatchNorm): two blocking exchanges per batch norm."""
    gather_with_grad: Flag = False
    """Contrastive training (open_clip's name): gradients flow through the gather of features, and backward
    reduce-scatters them."""
    local_loss: Flag = False
    """Contrastive training (open_clip's name): a rank compares its own features with all, instead of all with all."""
    target_length: Sequence | None = None
    """Tokens per sequence that the decoder of an encoder-decoder model reads; `sequence_length` when left out."""
    frozen: Frozen | None = None
    """Weights that are not trained: the embedding and a share of the layers from the bottom, such as 0.5; or every
    weight whose name contains one of these, such as [embedding, norm], units being embedding, block and head."""
    lora: LoraBlock | None = None
    """Train low-rank adapters only."""
    train_tokens: Count | None = None
    """Tokens of the whole training, for hours and cost; '1.4T' is fine."""
