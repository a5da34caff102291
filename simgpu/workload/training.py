"""How a model is trained: batch, precision, optimizer. No parallelism, no seconds."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.dtypes import DType
from simgpu.workload.lora import Lora

MOMENT_BYTES = {"adamw": 8, "adam": 8, "sgd": 4, "adafactor": 0, "adam8bit": 2, "none": 0}
"""Moments that an optimizer keeps, bytes per parameter.

Two in fp32 (Adam), one (SGD with momentum), a row and a column of each matrix (Adafactor: arXiv 1804.04235; under 0.1 %
of a parameter, left out), two in 8 bits (arXiv 2110.02861; the scale of each block of values, 1-2 %, left out).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The training recipe of one run.

    Parameters
    ----------
    sequence_length : int, tokens
    micro_batch_size : int, sequences per rank and forward pass
    accumulation : int
        Micro-batches per step and data-parallel rank: ``global = micro x dp x accumulation``.
    precision : DType
        Arithmetic and storage of activations; not fp8.
    fp8 : bool
        The GEMMs of the blocks read fp8 operands; embedding, head and everything else stay in ``precision``.
    param_dtype, grad_dtype : DType
        Storage of the weights and of the accumulated gradients that a rank keeps.
    reduce_dtype : DType
        What travels in gradient reductions; gathers of sharded weights are in ``precision``.
    master_dtype : DType or None
        Separate master copy kept by the optimizer; None when the weights themselves are the master.
    optimizer : str
        ``adamw``, ``adam``, ``sgd``, ``adafactor``, ``adam8bit`` or ``none``.
    recompute : str
        ``none``, ``selective`` (attention core) or ``full``.
    recompute_layers : int or None
        Only so many layers of a pipeline stage, its first ones, are recomputed; None for all.
    dropout : float
        Probability in hidden layers and attention; only whether it is 0 matters to time and memory.
    moe_imbalance : float
        Tokens of a layer's busiest expert over the mean; 1 is perfect balance.
    frozen_share : float
        The embedding and this share of the layers, from the bottom, are not trained; 0 for none.
    frozen_names : tuple of str
        Weights whose name contains one of these, or whose unit is of that kind, are not trained.
    lora : Lora or None
        Only low-rank adapters are trained.
    sync_batch_norm : bool
        Batch norms are over the images of all data-parallel ranks (SyncBatchNorm).
    gather_with_grad, local_loss : bool
        Of a contrastive loss: features of other ranks have gradients; a rank compares only its own with all.
    target_length : int or None, tokens
        What the decoder of an encoder-decoder model reads per sequence; None for as much as the encoder.
    """

    sequence_length: int
    micro_batch_size: int
    accumulation: int
    precision: DType = DType.BF16
    param_dtype: DType = DType.FP32
    grad_dtype: DType = DType.FP32
    reduce_dtype: DType = DType.FP32
    master_dtype: DType | None = None
    optimizer: str = "adamw"
    recompute: str = "none"
    recompute_layers: int | None = None
    dropout: float = 0.0
    fp8: bool = False
    moe_imbalance: float = 1.0
    sync_batch_norm: bool = False
    gather_with_grad: bool = False
    local_loss: bool = False
    target_length: int | None = None
    frozen_share: float = 0.0
    frozen_names: tuple[str, ...] = ()
    lora: Lora | None = None

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch."""
        return self.sequence_length * self.micro_batch_size

    @property
    def matmul_dtype(self) -> DType:
        """Format of the operands of the blocks' GEMMs.

        Examples
        --------
        >>> str(Training(sequence_length=1, micro_batch_size=1, accumulation=1, fp8=True).matmul_dtype)
        'fp8'
        """
        return DType.FP8 if self.fp8 else self.precision

    @property
    def optimizer_bytes_per_parameter(self) -> int:
        """Bytes of optimizer state per parameter: the moments, plus the master copy when there is one.

        Examples
        --------
        >>> Training(sequence_length=1, micro_batch_size=1, accumulation=1,
        ...          master_dtype=DType.FP32).optimizer_bytes_per_parameter
        12
        """
        return MOMENT_BYTES[self.optimizer] + (
            self.master_dtype.bytes if self.master_dtype and self.optimizer != "none" else 0
        )
