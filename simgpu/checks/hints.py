"""What is usual for a class of the step that took longer than predicted, where no simulated cause explains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HINTS: Final[Mapping[str, str]] = {
    "compute.gemm": "products in another number format (fp32 or TF32 instead of bf16?) or of other shapes: "
    "simgpu trace --ops writes what they took, for costs.table",
    "compute.attention": "another attention kernel: software and attn_implementation say which one is meant",
    "compute.memory_bound": "kernels that are fused in one of the two only: see software, and simgpu ops",
    "compute.recompute": "another setting of activation checkpointing: see training.recompute",
    "compute.optimizer": "another implementation of the optimizer: software.optimizer is fused, foreach or for_loop",
    "exposed": "links at another rate than the topology's, or less overlap: measure with nccl-tests, see network.logs",
    "exposed+wait": "links at another rate than the topology's, less overlap, or waiting for other ranks: trace all "
    "ranks to tell them apart",
    "wait": "ranks that come late: unequal work, a slow rank, a data loader",
    "host": "the CPU needs longer to issue work than was assumed: see software.host_issue_ns",
    "unattributed": "idle time that neither the GPU nor the CPU accounts for: a data loader, a checkpoint, a "
    "synchronisation such as .item()",
}
OVER: Final = "predicted for longer than it was: put the measured figures in (costs.table, network.logs)"
