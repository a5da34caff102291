"""Rows that come with their stages' profile: the pipeline alone, played with the times that the source measured.

Such a row has ``prof_F_ms``, ``prof_B_ms`` (gradient of the input), ``prof_W_ms`` (gradient of the weights) and
``prof_comm_ms`` of a micro-batch, as means over the stages, and the bubble that the source computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_TIMES: Final = ("prof_F_ms", "prof_B_ms", "prof_W_ms", "prof_comm_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledPipeline:
    """The pipeline of a row by itself.

    Parameters
    ----------
    data : dict
        What a scenario file would hold.
    work_s : float, seconds
        Of every stage in a step.
    """

    data: dict[str, Any]
    work_s: float

    def step_s(self, bubble: float) -> float:
        """Return the step of which such a share is bubble, in seconds."""
        return self.work_s / (1 - bubble)


def profiled_pipeline(cells: Mapping[str, str], scenario: Mapping[str, Any]) -> ProfiledPipeline | None:
    """Return the pipeline of a row as a scenario whose stages take what the source profiled.

    Parameters
    ----------
    cells : mapping of column to text
    scenario : mapping
        The row's scenario from first principles.

    Returns
    -------
    ProfiledPipeline or None
        None where the row has no profile, or no pipeline.

    Notes
    -----
    Virtual stages take equal parts of a rank's times. Sends and receives are posted ahead and nobody waits for a send,
    as in the source's own count of the bubble.

    Examples
    --------
    >>> cells = dict(zip(("prof_F_ms", "prof_B_ms", "prof_W_ms", "prof_comm_ms"), ("3", "2", "1", "0.5")))
    >>> scenario = {"parallel": {"pp": 2, "schedule": "zbh1"}, "cluster": {}, "training": {
    ...     "micro_batch_size": 4, "global_batch_size": 32}}
    >>> found = profiled_pipeline(cells, scenario)
    >>> found.data["model"]["backward_ns"], found.data["training"]["global_batch_size"], found.work_s
    (3000000, 8, 0.048)
    """
    parallel, training = scenario["parallel"], scenario["training"]
    try:
        forward, inputs, weights, message = (round(float(cells.get(name, "")) * 1e6) for name in _TIMES)
    except ValueError:
        return None
    if "pp" not in parallel:
        return None
    pp, virtual = parallel["pp"], parallel.get("virtual_stages", 1)
    replicas = max(1, scenario["cluster"].get("gpus", pp) // pp // parallel.get("tp", 1) // parallel.get("cp", 1))
    microbatches = training["global_batch_size"] // training["micro_batch_size"] // replicas
    pipeline = {name: parallel[name] for name in ("pp", "virtual_stages", "schedule") if name in parallel}
    nodes = scenario["cluster"] | {"gpus": pp}
    data = {
        "model": {
            "stages": pp * virtual,
            "forward_ns": forward // virtual,
            "backward_ns": (inputs + weights) // virtual,
            "backward_weight_ns": weights // virtual,
            "activation_bytes": 1,
            "message_ns": message,
        },
        "cluster": nodes,
        "training": {"micro_batch_size": 1, "global_batch_size": microbatches},
        "parallel": pipeline | {"overlap_p2p": True},
    }
    return ProfiledPipeline(data=data, work_s=microbatches * (forward + inputs + weights) / 1e9)
