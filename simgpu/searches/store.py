"""What keeping a gradient costs under a kind of data parallelism, whatever the stage."""

from __future__ import annotations

from simgpu.lower.stage_plan import stage_plan
from simgpu.lower.stage_units import StageUnits
from simgpu.parallel.data_parallel import StageWeights
from simgpu.parallel.data_parallel.plan import GradientStore
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

_EMPTY = StageUnits(units=(), names=(), weights=StageWeights(kinds=(), gradients=()))


def gradient_store(training: Training, strategy: Strategy) -> GradientStore:
    """Return what it costs to keep a gradient.

    Parameters
    ----------
    training : Training
    strategy : Strategy

    Examples
    --------
    >>> training = Training(sequence_length=1, micro_batch_size=1, accumulation=1)
    >>> gradient_store(training, Strategy(dp=2, data_parallel="distributed_optimizer")).zeroed
    True
    """
    return stage_plan(_EMPTY, training, strategy).store
