"""Which parallel degrees fit a model and its GPUs, so that one list says what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.config.parallel_block import ParallelBlock
from simgpu.workload.architecture import Architecture
from simgpu.workload.families import layout_issues
from simgpu.workload.training import Training

_LARGEST_TRIED: Final = 1024


def tensor_degrees(model: Architecture, parallel: ParallelBlock, gpus: int | None) -> list[int]:
    """Return the tensor-parallel degrees that a model and the GPUs allow, smallest first.

    Parameters
    ----------
    model : Architecture
    parallel : ParallelBlock
        Its pipeline and context degrees count where they divide the GPUs.
    gpus : int or None
        GPUs of the cluster; None when they are not known.

    Returns
    -------
    list of int

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> tensor_degrees(bundled_model("llama-3-8b"), ParallelBlock(pp=2), 8)
    [1, 2, 4]
    """
    others = (parallel.pp or 1) * parallel.cp
    share = None if gpus is None else gpus // others if gpus % others == 0 else gpus
    return [tp for tp in _divisors(model.tensor_ways) if _fits(share, tp) and not tensor_problems(model, tp)]


def tensor_problems(model: Architecture, tp: int) -> list[str]:
    """Return what of a model a tensor-parallel degree does not fit.

    Parameters
    ----------
    model : Architecture
    tp : int

    Returns
    -------
    list of str

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> tensor_problems(bundled_model("gpt2"), 5)[0]
    'does not divide the 12 attention heads of gpt2'
    """
    sample = Training(sequence_length=model.fixed_sequence or 1, micro_batch_size=1, accumulation=1)
    issues = layout_issues(model, sample, tp=tp)
    return [issue.problem for issue in issues if issue.field == "parallel.tp"]


def pipeline_degrees(
    model: Architecture, parallel: ParallelBlock, gpus: int | None, *, stages_per_rank: int = 1
) -> list[int]:
    """Return the pipeline degrees that split a model's layers evenly and fit the GPUs, smallest first.

    Parameters
    ----------
    model : Architecture
    parallel : ParallelBlock
        Its tensor and context degrees count where they divide the GPUs.
    gpus : int or None
        GPUs of the cluster; None when they are not known.
    stages_per_rank : int
        Stages of the model that one rank comes to.

    Returns
    -------
    list of int

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> pipeline_degrees(bundled_model("llama-2-7b"), ParallelBlock(tp=2), 8)
    [1, 2, 4]
    >>> pipeline_degrees(bundled_model("gpt2"), ParallelBlock(), 8, stages_per_rank=3)
    [1, 2, 4]
    """
    others = parallel.tp * parallel.cp
    share = None if gpus is None else gpus // others if gpus % others == 0 else gpus
    degrees = _divisors(model.layers)
    return [pp for pp in degrees if _fits(share, pp) and (pp == 1 or model.layers % (pp * stages_per_rank) == 0)]


def context_degrees(parallel: ParallelBlock, pp: int, gpus: int) -> list[int]:
    """Return the context-parallel degrees that the GPUs allow, smallest first.

    Parameters
    ----------
    parallel : ParallelBlock
        Its tensor-parallel degree counts.
    pp : int
        Pipeline degree.
    gpus : int
        GPUs of the cluster, a multiple of tp x pp.

    Returns
    -------
    list of int

    Examples
    --------
    >>> context_degrees(ParallelBlock(tp=2), 1, 8)
    [1, 2, 4]
    """
    return _divisors(gpus // (parallel.tp * pp))


def nearest(degree: int, allowed: Sequence[int]) -> str:
    """Write the allowed degrees next to one that is not.

    Parameters
    ----------
    degree : int
    allowed : sequence of int
        Ascending.

    Returns
    -------
    str

    Examples
    --------
    >>> nearest(3, [1, 2, 4, 8]), nearest(9, [1, 2, 4, 8])
    ('2 or 4', '8')
    """
    below, above = [d for d in allowed if d < degree], [d for d in allowed if d > degree]
    return " or ".join(str(d) for d in (*below[-1:], *above[:1]))


def _divisors(number: int) -> list[int]:
    return [candidate for candidate in range(1, min(number, _LARGEST_TRIED) + 1) if number % candidate == 0]


def _fits(share: int | None, degree: int) -> bool:
    return share is None or share % degree == 0
