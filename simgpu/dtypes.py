"""Number formats and their sizes."""

from __future__ import annotations

from enum import StrEnum


class DType(StrEnum):
    """A number format of weights, gradients, activations or arithmetic.

    Examples
    --------
    >>> DType("bf16").bytes
    2
    """

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"

    @property
    def bytes(self) -> int:
        """Bytes of one element as stored; tf32 is arithmetic on fp32 storage."""
        return _BYTES[self]


_BYTES = {DType.FP32: 4, DType.TF32: 4, DType.BF16: 2, DType.FP16: 2, DType.FP8: 1}
