"""Memory that a training process holds whatever the model."""

from __future__ import annotations

GIB = 1 << 30

CONTEXT_BYTES = int(0.7 * GIB)
"""CUDA context with cuBLAS workspaces: 0.5 to 0.9 GiB (PHYSICS section 5, per-parameter memory)."""

COMMUNICATOR_BYTES = int(0.35 * GIB)
"""torch.distributed and NCCL buffers of a process in a group: from 0.35 GiB up (PHYSICS section 5)."""
