"""One measured run as it travels to a worker, and the prediction that comes back: plain data both ways."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from simgpu.config.point_case import point_case, point_files
from simgpu.config.run_costs import RunCosts
from simgpu.config.run_inputs import RunInputs
from simgpu.config.run_table import MeasuredRun
from simgpu.errors import ScenarioError, SimGPUError
from simgpu.executor import code_version
from simgpu.validation.long_step import play_step

_KEPT_INPUTS: Final = 8
_inputs: dict[tuple[str, str, str], RunInputs] = {}
"""Models and clusters with all that was derived from them, by folder, content of files and GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """A measured run to predict.

    Parameters
    ----------
    key : str
        Digest of everything that the prediction depends on.
    data : mapping
        The scenario as plain data.
    folder : str
        Where its relative paths start.
    files : str
        Digest of the files that it refers to.
    gpu_model : str
        GPU of the machines where it is not the topology's own, else empty.
    source : str
        Where the run was published: its machine may have an operating point of its own.
    """

    key: str
    data: Mapping[str, Any]
    folder: str
    files: str
    gpu_model: str
    source: str


def run_task(run: MeasuredRun, digests: dict[Path, str]) -> RunTask:
    """Make the task of a run.

    Parameters
    ----------
    run : MeasuredRun
    digests : dict of Path to str
        Of files that were read already; gets the others.

    Returns
    -------
    RunTask
    """
    files = []
    for path in point_files(run.data, run.folder):
        if path not in digests:
            digests[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        files.append(digests[path])
    text = json.dumps([code_version(), run.data, files, run.gpu_model, run.source], sort_keys=True, default=str)
    return RunTask(
        key=hashlib.sha256(text.encode()).hexdigest(),
        data=run.data,
        folder=str(run.folder.resolve()),
        files="".join(files),
        gpu_model=run.gpu_model,
        source=run.source,
    )


def play_run(task: RunTask) -> dict[str, Any]:
    """Predict a run; whatever is wrong with it is part of the answer.

    Parameters
    ----------
    task : RunTask

    Returns
    -------
    dict
        ``reason``, empty when there is a prediction, and then ``step_s``, ``memory_gib``, ``breakdown`` and ``fits``.
        ``fault`` says that the reason is a fault of SimGPU.
    """
    try:
        case = point_case("run", task.data, _kept_inputs(task))
        costs = RunCosts(
            rates=case.costs.rates,
            power_cap_w=case.costs.power_cap_w,
            table=case.costs.table,
            source=task.source,
            gpus=case.cluster.world_size,
        )
        case = replace(case, costs=costs)
        step = play_step(case)
    except ScenarioError as error:
        more = f" (and {len(error.issues) - 1} more)" if len(error.issues) > 1 else ""
        return {"reason": " ".join(str(replace(error.issues[0], file=None, line=None)).split()) + more, "fault": False}
    except SimGPUError as error:
        return {"reason": " ".join(str(error).split()), "fault": False}
    except Exception as error:  # a fault of SimGPU in one run costs that run, not the others
        return {"reason": " ".join(f"SimGPU failed: {type(error).__name__}: {error}".split()), "fault": True}
    return {
        "reason": "",
        "fault": False,
        "step_s": step.step_ns / 1e9,
        "memory_gib": step.memory_gib,
        "breakdown": step.breakdown,
        "fits": step.fits,
    }


def _kept_inputs(task: RunTask) -> RunInputs:
    key = (task.folder, task.files, task.gpu_model)
    if key not in _inputs:
        while len(_inputs) >= _KEPT_INPUTS:
            del _inputs[next(iter(_inputs))]
        _inputs[key] = RunInputs(folder=Path(task.folder), gpu_model=task.gpu_model)
    return _inputs[key]
