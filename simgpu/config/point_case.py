"""From the plain data of one scenario to its case, and the files that the case depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from simgpu.config.assemble import assemble
from simgpu.config.case import Case
from simgpu.config.draft import Draft
from simgpu.config.findings import Findings
from simgpu.config.inputs import Inputs
from simgpu.config.lookup import find_file
from simgpu.errors import ScenarioError
from simgpu.io.user_path import is_folder, is_readable, user_path

_FILES: Final = (("model",), ("parallel", "schedule"), ("costs", "table"))
"""Fields beside ``cluster.topology`` that may hold a path."""


def point_case(name: str, data: Mapping[str, Any], inputs: Inputs) -> Case:
    """Make a case of a scenario without variants and sweep.

    Parameters
    ----------
    name : str
    data : mapping
        What the scenario's file would hold.
    inputs : Inputs
        Reads models and clusters, each once.

    Returns
    -------
    Case

    Raises
    ------
    ScenarioError
        With every issue found, by field.

    Examples
    --------
    >>> data = {"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "parallel": {"pp": 8},
    ...         "training": {"sequence_length": 1024, "micro_batch_size": 1}}
    >>> point_case("one", data, Inputs(folder=Path())).strategy.pp
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: parallel.pp = 8: does not divide ...
    """
    findings = Findings(draft=Draft(data=dict(data), source=""))
    case = assemble(name, findings, inputs)
    if case is None:
        raise ScenarioError(replace(issue, file=issue.file or None) for issue in findings.issues)
    return case


def point_files(data: Mapping[str, Any], folder: Path) -> tuple[Path, ...]:
    """Return the files that a scenario refers to and that can be read; the models that come with SimGPU are none.

    Parameters
    ----------
    data : mapping
        What the scenario's file would hold.
    folder : Path
        Where its relative paths start.

    Returns
    -------
    tuple of Path

    Examples
    --------
    >>> [path.name for path in point_files({"model": "gpt2", "cluster": {"topology": "dgx-a100"}}, Path())]
    ['dgx-a100.yaml']
    """
    draft = Draft(data=dict(data), source="")
    found = []
    topology = draft.get(("cluster", "topology"))
    if isinstance(topology, str):
        found.append(find_file(topology, "topologies", folder=folder))
    for field in _FILES:
        name = draft.get(field)
        if isinstance(name, str) and name:
            path = folder / user_path(name)
            found.append(path / "config.json" if is_folder(path) else path)
    return tuple(path for path in found if path is not None and is_readable(path))
