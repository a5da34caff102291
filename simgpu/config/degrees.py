"""Which parallel degrees fit a model and its GPUs, so that one list says what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.config.parallel_block import ParallelBlock
from simgpu.errors import ScenarioError
from simgpu.workload.model import Model
from simgpu.workload.shard import Shard
from simgpu.workload.training import Training

_LARGEST_TRIED: Final = 1024


def tensor_degrees(model: Model, parallel: ParallelBlock, gpus: int | None) -> list[int]:
    """Return the tensor-parallel degrees that a model and the GPUs allow, smallest first.

    Parameters
    ----------
    model : Model
    parallel : ParallelBlock
        Its pipeline degree counts where it divides the GPUs.
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
    pp = parallel.pp or 1
    share = None if gpus is None else gpus // pp if gpus % pp == 0 else gpus
    return [tp for tp in _divisors(model.heads) if _fits(share, tp) and not tensor_problems(model, tp)]


def tensor_problems(model: Model, tp: int) -> list[str]:
    """Return what of a model a tensor-parallel degree does not fit.

    Parameters
    ----------
    model : Model
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
    one_token = Training(sequence_length=1, micro_batch_size=1, accumulation=1)
    try:
        Shard(model=model, training=one_token, tp=tp, sequence_parallel=False)
    except ScenarioError as error:
        return [issue.problem for issue in error.issues if issue.field == "parallel.tp"]
    return []


def pipeline_degrees(model: Model, parallel: ParallelBlock, gpus: int | None) -> list[int]:
    """Return the pipeline degrees that split a model's layers evenly and fit the GPUs, smallest first.

    Parameters
    ----------
    model : Model
    parallel : ParallelBlock
        Its tensor-parallel degree counts where it divides the GPUs.
    gpus : int or None
        GPUs of the cluster; None when they are not known.

    Returns
    -------
    list of int

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> pipeline_degrees(bundled_model("llama-2-7b"), ParallelBlock(tp=2), 8)
    [1, 2, 4]
    """
    share = None if gpus is None else gpus // parallel.tp if gpus % parallel.tp == 0 else gpus
    return [pp for pp in _divisors(model.layers) if _fits(share, pp)]


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
