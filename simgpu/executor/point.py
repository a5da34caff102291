"""One simulation of many, as it travels to a worker and comes back: plain data both ways."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from simgpu.api import facts, play_case
from simgpu.config.inputs import Inputs
from simgpu.config.point_case import point_case, point_files
from simgpu.errors import ScenarioError, SimGPUError
from simgpu.executor.version import code_version
from simgpu.metrics.summary import summarize
from simgpu.metrics.sweep_table import FAILED, INVALID, OK, point_numbers

_KEPT_INPUTS: Final = 8
_inputs: dict[tuple[str, str], Inputs] = {}
"""Models and clusters with all that was derived from them (routes, rings, prices), by folder and content of files."""

_NO_NUMBERS: Final = ("name", "$schema", "measured")  # fields that no number depends on


@dataclass(frozen=True, slots=True, kw_only=True)
class PointTask:
    """A point to simulate.

    Parameters
    ----------
    key : str
        Digest of everything that the result depends on.
    data : mapping
        The scenario as plain data.
    folder : str
        Where its relative paths start.
    files : str
        Digest of the files that it refers to.
    fold : bool
        Simulate one rank of every class of ranks proved alike.
    version : str
        The SimGPU that asks, where workers may run another one, which then refuse; empty for processes of our own.
    """

    key: str
    data: Mapping[str, Any]
    folder: str
    files: str
    fold: bool
    version: str


def point_task(
    data: Mapping[str, Any], folder: Path, *, fold: bool, digests: dict[Path, str], elsewhere: bool = False
) -> PointTask:
    """Make the task of a point.

    Parameters
    ----------
    data : mapping
        The scenario as plain data.
    folder : Path
        Where its relative paths start.
    fold : bool
    digests : dict of Path to str
        Of files that were read already; gets the others.
    elsewhere : bool
        Workers are not of our own making.

    Returns
    -------
    PointTask

    Examples
    --------
    >>> data = {"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "training": {"micro_batch_size": 1}}
    >>> one, other = (point_task(data | {"name": name}, Path(), fold=True, digests={}) for name in "ab")
    >>> one.key == other.key, point_task(data, Path(), fold=False, digests={}).key == one.key
    (True, False)
    """
    files = []
    for path in point_files(data, folder):
        if path not in digests:
            digests[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        files.append(digests[path])
    content = {name: value for name, value in data.items() if name not in _NO_NUMBERS}
    text = json.dumps([code_version(), content, files, fold], sort_keys=True, default=str)
    return PointTask(
        key=hashlib.sha256(text.encode()).hexdigest(),
        data=content,
        folder=str(folder),
        files="".join(files),
        fold=fold,
        version=code_version() if elsewhere else "",
    )


def play_point(task: PointTask) -> dict[str, Any]:
    """Simulate a point; whatever is wrong with it is part of the answer.

    Parameters
    ----------
    task : PointTask

    Returns
    -------
    dict
        ``status``, ``reason`` and, when it is ok, ``numbers``.

    Examples
    --------
    >>> data = {"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "parallel": {"pp": 8},
    ...         "training": {"sequence_length": 1024, "micro_batch_size": 1}}
    >>> play_point(point_task(data, Path(), fold=True, digests={}))["reason"][:44]
    'parallel.pp = 8: does not divide the 12 laye'
    """
    if task.version and task.version != code_version():
        return _answer(FAILED, f"the worker runs SimGPU {code_version()}, this is {task.version}")
    try:
        case = point_case("point", task.data, _kept_inputs(task))
        known = facts(case)
        report = summarize(play_case(case, fold=task.fold), known)
    except ScenarioError as error:
        more = f" (and {len(error.issues) - 1} more)" if len(error.issues) > 1 else ""
        return _answer(INVALID, " ".join(str(replace(error.issues[0], file=None, line=None)).split()) + more)
    except SimGPUError as error:
        return _answer(INVALID, " ".join(str(error).split()))
    except Exception as error:
        return _answer(FAILED, " ".join(f"SimGPU failed: {type(error).__name__}: {error}".split()))
    numbers = point_numbers(report, tokens=known.tokens, price_per_gpu_hour=case.price_per_gpu_hour)
    return {**_answer(OK, ""), "numbers": numbers}


def _answer(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason, "numbers": {}}


def _kept_inputs(task: PointTask) -> Inputs:
    key = (task.folder, task.files)
    if key not in _inputs:
        while len(_inputs) >= _KEPT_INPUTS:
            del _inputs[next(iter(_inputs))]
        _inputs[key] = Inputs(folder=Path(task.folder))
    return _inputs[key]
