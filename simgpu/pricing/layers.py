"""Times of published layers: three are played, and the one in the middle is timed, its communication included."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final

from simgpu.config.load import load_cases
from simgpu.config.published_layers import LAYERS, MeasuredLayer
from simgpu.engine import play
from simgpu.errors import ProgramError
from simgpu.fold import fold
from simgpu.hardware.gpu import Gpu
from simgpu.metrics.layer_time import layer_times_ns
from simgpu.metrics.op_errors import MACHINE, MeasuredOps
from simgpu.pricing.cases import lower_case, op_prices
from simgpu.units import format_time

_IMPOSSIBLE: Final = 10  # times as fast as predicted: no card is so far above its sustained rate


def price_layer(layer: MeasuredLayer, *, rates: str = MACHINE) -> list[MeasuredOps]:
    """Play a published layer and set its prediction beside each time that was measured of it.

    Parameters
    ----------
    layer : MeasuredLayer
    rates : str
        As in a scenario's ``costs`` block; ``machine`` is ``sustained``, as layer times tell no rate.

    Returns
    -------
    list of MeasuredOps
        Forward, backward, or both, in groups of their own.

    Raises
    ------
    SimGPUError
        When the layer cannot be laid out, its device has no such rates, or a time is shorter than any card allows.
    """
    costs = {"rates": "sustained" if rates == MACHINE else rates}
    gpu, forward_ns, backward_ns = _times_ns(json.dumps({**layer.scenario, "costs": costs}))
    phases = (("forward", layer.forward_ns, forward_ns), ("backward", layer.backward_ns, backward_ns))
    for phase, measured_ns, predicted_ns in phases:
        if measured_ns is not None and measured_ns * _IMPOSSIBLE < predicted_ns:
            times = f"{format_time(measured_ns)} instead of {format_time(predicted_ns)}"
            raise ProgramError(f"{phase} is over {_IMPOSSIBLE} times as fast as predicted ({times}): check its unit")
    return [
        MeasuredOps(
            id=layer.id, gpu=gpu, group=f"layer.{phase}", ops=(), time_ns=measured_ns, predicted_ns=predicted_ns
        )
        for phase, measured_ns, predicted_ns in phases
        if measured_ns is not None
    ]


@lru_cache(maxsize=256)
def _times_ns(scenario: str) -> tuple[Gpu, int, int]:
    (case,) = load_cases(json.loads(scenario))
    timeline = play(fold(lower_case(case, op_prices(case))))
    return case.cluster.gpu(0), *layer_times_ns(timeline, LAYERS // 2)
