"""What the Timeline cannot know about a run: its name, its tokens, its FLOPs, its price."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Per step and whole job unless said.

    Parameters
    ----------
    tokens : int
        0 for a synthetic model.
    model_flops, hardware_flops : int
        Without and with recomputation.
    peak_flops_per_s : float
        Dense peak of one GPU in the arithmetic used.
    stages, microbatches : int
        Of the pipeline; 1 stage when there is none.
    model : str
    """

    name: str
    model: str
    tokens: int
    model_flops: int
    hardware_flops: int
    peak_flops_per_s: float
    stages: int = 1
    microbatches: int = 1
    price_per_gpu_hour: float | None = None
    train_tokens: int | None = None
    warnings: tuple[str, ...] = ()
