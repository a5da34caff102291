"""Number formats by the words that PyTorch, Hugging Face, DeepSpeed, Megatron and Lightning have for them."""

from __future__ import annotations

from typing import Final

FORMATS: Final = {
    "bf16": "bf16", "bfloat16": "bf16", "torch.bfloat16": "bf16", "bfp16": "bf16",
    "fp16": "fp16", "float16": "fp16", "torch.float16": "fp16", "half": "fp16",
    "fp32": "fp32", "float32": "fp32", "torch.float32": "fp32", "float": "fp32",
}  # fmt: skip
"""Storage formats; ``bfp16`` is DeepSpeed's (deepspeedai/DeepSpeed deepspeed/runtime/config.py)."""
MIXED: Final = {"no": "fp32", "false": "fp32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}
"""``mixed_precision`` of huggingface/accelerate: the arithmetic above fp32 weights."""
LIGHTNING: Final = {
    "bf16-true": ("bf16", True), "bf16-mixed": ("bf16", False), "bf16": ("bf16", False),
    "16-true": ("fp16", True), "16-mixed": ("fp16", False), "16": ("fp16", False),
    "32-true": ("fp32", False), "32": ("fp32", False), "transformer-engine": ("fp8", False),
}  # fmt: skip
"""``precision`` of Lightning-AI/pytorch-lightning: the arithmetic, and whether 16-bit weights are kept alone."""
