"""Cases too large to be meant: what single fields allow, but not all of it together.

Every bound is far above what has been trained or built. Below them all times fit 64-bit nanoseconds, all sizes fit
64-bit bytes, and no simulation takes minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simgpu.config.findings import Findings
from simgpu.config.quantity import LARGEST_ACCUMULATION, LARGEST_GPUS, LARGEST_LAYERS, LARGEST_SEQUENCE, LARGEST_WIDTH
from simgpu.workload.architecture import Architecture

if TYPE_CHECKING:
    from simgpu.parallel.strategy import Strategy
    from simgpu.workload.synthetic import SyntheticModel
    from simgpu.workload.training import Training

LARGEST_PARAMETERS: Final = 10**15
LARGEST_TOKENS: Final = 10**9  # of one micro-batch
LARGEST_PASSES: Final = 65_536  # layers (or stages) x micro-batches: about a millisecond of simulation each
# A replica's FLOPs in one step: 405e9 parameters with 16e6 tokens have 4e19. At 7e12 FLOP/s, the slowest card's fp32
# rate, and a hundredth of that for the thinnest shapes it is 1.4e9 s; 64 bits of nanoseconds are 9e9 s.
LARGEST_STEP_FLOPS: Final = 10**20
LARGEST_STEP_NS: Final = 10**18
LARGEST_STEP_BYTES: Final = 2**60
_UNMEANT: Final = "too large to be meant"
_SLOW: Final = "more than SimGPU plays in a minute or so"


def oversized(model: Architecture) -> tuple[str, ...]:
    """Say which dimensions of a model are too large to be meant.

    Parameters
    ----------
    model : Architecture

    Returns
    -------
    tuple of str
        One sentence each; empty for a model that can be.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> oversized(bundled_model("llama-3.1-405b"))
    ()
    """
    bounds = {"layers": LARGEST_LAYERS, "max_positions": LARGEST_SEQUENCE, "parameters": LARGEST_PARAMETERS}
    sizes = {**model.dimensions, "parameters": model.parameters}
    return tuple(
        f"{name} = {size:,} is too large to be meant; allowed: up to {most:,}"
        for name, size in sizes.items()
        if size > (most := bounds.get(name, LARGEST_WIDTH))
    )


def check_magnitude(
    model: Architecture | SyntheticModel, training: Training, strategy: Strategy, findings: Findings
) -> None:
    """Note what is too large to be meant, or to be simulated in a minute or so.

    Parameters
    ----------
    model : Architecture or SyntheticModel
    training : Training
    strategy : Strategy
    findings : Findings
    """

    def bound(field: str, value: int, most: int, what: str, fix: str, reason: str = _UNMEANT) -> None:
        if value > most:
            path, problem = tuple(field.split(".")), f"{what} come to {value:,}, which is {reason}"
            findings.note(path, findings.draft.issue(path, problem, allowed=f"up to {most:,}", fix=fix))

    steps = training.accumulation
    batch = next(
        (f for f in ("training.gradient_accumulation", "training.global_batch_size") if findings.value(f) is not None),
        "training",
    )
    fewer = "use fewer micro-batches: a few tens of them tell the time of each"
    layers = model.layers if isinstance(model, Architecture) else model.stages
    bound("cluster", strategy.world_size, LARGEST_GPUS, "the GPUs", "use fewer nodes or GPUs", _SLOW)
    if steps > LARGEST_ACCUMULATION:
        bound(batch, steps, LARGEST_ACCUMULATION, "the micro-batches of one step", fewer)
    else:
        bound(batch, layers * steps, LARGEST_PASSES, "layers x micro-batches of one step", fewer, _SLOW)
    if not isinstance(model, Architecture):
        stage_ns = max(model.stage_forward_ns(s) + model.stage_backward_ns(s) for s in range(model.stages))
        passes = steps + model.stages
        bound("model", stage_ns * passes, LARGEST_STEP_NS, "the nanoseconds of one step", "use shorter stages")
        kept = max(model.saved_bytes, model.activation_bytes) * passes
        bound("model", kept, LARGEST_STEP_BYTES, "the bytes kept in one step", "use smaller activations")
        return
    tokens, smaller = training.tokens, "use a smaller micro_batch_size, or shorter sequences"
    bound("training", tokens, LARGEST_TOKENS, "the tokens of one micro-batch", smaller)
    bound(
        "training",
        model.hardware_flops(training) * steps,
        LARGEST_STEP_FLOPS,
        "the FLOPs of one replica's step",
        smaller,
    )
    kept = steps * model.activation_bound_bytes(training)
    bound("training", kept, LARGEST_STEP_BYTES, "the activation bytes of one step", smaller)
