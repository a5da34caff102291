"""How a model is trained: batch, precision, optimizer. No parallelism, no seconds."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.dtypes import DType


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
        Arithmetic of the matmuls and storage of activations.
    param_dtype, grad_dtype : DType
        Storage of the weights and of the accumulated gradients that a rank keeps.
    reduce_dtype : DType
        What travels in gradient reductions; gathers of sharded weights are in ``precision``.
    master_dtype : DType or None
        Separate master copy kept by the optimizer; None when the weights themselves are the master.
    optimizer : str
        ``adamw``, ``sgd`` or ``none``.
    recompute : str
        ``none``, ``selective`` (attention core) or ``full``.
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

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch."""
        return self.sequence_length * self.micro_batch_size

    @property
    def optimizer_bytes_per_parameter(self) -> int:
        """Bytes of optimizer state per parameter: moments in fp32, plus the master copy when there is one.

        Examples
        --------
        >>> Training(sequence_length=1, micro_batch_size=1, accumulation=1,
        ...          master_dtype=DType.FP32).optimizer_bytes_per_parameter
        12
        """
        moments = {"adamw": 8, "sgd": 4, "none": 0}[self.optimizer]
        return moments + (self.master_dtype.bytes if self.master_dtype and self.optimizer != "none" else 0)
