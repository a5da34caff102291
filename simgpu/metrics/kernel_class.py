"""Which accounting class a real kernel belongs to, by its name."""

from __future__ import annotations

import re
from typing import Final

_RULES: Final = (
    ("optimizer", r"multi_?tensor|adam|lamb|_sgd|adagrad|adafactor|OptimizerFunctor"),
    ("attention", r"flash|fmha|sdpa|attention|attn"),
    ("gemm", r"gemm|gemv|cijk_|nvjet|xmma|s\d+(?:16|8)cudnn|cutlass.*(?:mma|tensorop)|conv(?:olve|olution|_|\d|fprop)"),
    ("gemm", r"(?:d|w)grad|winograd|igemm|miopen.*conv|batched_matmul|\bmatmul"),
)
_COMPILED: Final = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _RULES)


def kernel_class(name: str) -> str:
    """Return ``gemm``, ``attention``, ``optimizer`` or, for all others, ``memory_bound``.

    Examples
    --------
    >>> kernel_class("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn")
    'gemm'
    >>> kernel_class("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)")
    'attention'
    >>> kernel_class("void at::native::vectorized_elementwise_kernel<4, AddFunctor>")
    'memory_bound'
    >>> kernel_class("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>")
    'optimizer'
    """
    return next((found for found, pattern in _COMPILED if pattern.search(name)), "memory_bound")


def is_communication(name: str) -> bool:
    """Whether a kernel is NCCL's, RCCL's or DeepEP's.

    Examples
    --------
    >>> is_communication("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)"), is_communication("gemm")
    (True, False)
    >>> is_communication("void deep_ep::intranode::dispatch<8, 768>(...)")
    True
    """
    return re.match(r"(?:void )?(?:nccl|rccl|deep_ep::)", name) is not None
