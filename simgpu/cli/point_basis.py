"""What a page of a sweep, search or validation rests on: the files that were read, and the assumptions of one point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simgpu.metrics.assumption import Assumption


def point_assumptions(name: str, data: Mapping[str, Any], folder: Path) -> tuple[Assumption, ...]:
    """List what the figures of a point rest on.

    Parameters
    ----------
    name : str
    data : mapping
        What the scenario's file of this point alone would hold.
    folder : Path
        Where its relative paths start.

    Returns
    -------
    tuple of Assumption

    Raises
    ------
    ScenarioError
        When the point cannot be laid out.

    Examples
    --------
    >>> data = {"model": {"stages": 2, "forward_ns": 10, "backward_ns": 20}, "network": "free",
    ...         "cluster": {"topology": "dgx-a100", "gpus": 2}, "parallel": {"pp": 2},
    ...         "training": {"micro_batch_size": 1}}
    >>> point_assumptions("one", data, Path())[0].what
    'times of all passes'
    """
    from simgpu.api import report_case
    from simgpu.assumptions import assumptions
    from simgpu.config.defaults import given_fields
    from simgpu.config.inputs import Inputs
    from simgpu.config.point_case import point_case

    case = point_case(name, data, Inputs(folder=folder))
    return assumptions(case, report_case(case), given_fields(data, ()))


def scenario_files(path: Path | None, overrides: Sequence[str]) -> list[tuple[str, str]]:
    """Return the scenario's file for a page; none where it was read from a pipe, which is empty now.

    Parameters
    ----------
    path : Path or None
    overrides : sequence of str
        ``a.b=value`` settings, written above it.

    Returns
    -------
    list of (str, str)
        Name and text.

    Raises
    ------
    SimGPUError
        When it can no longer be read.

    Examples
    --------
    >>> scenario_files(None, [])
    []
    """
    if path is None or not path.is_file():
        return []
    from simgpu.io.text_file import read_text

    above = "".join(f"# --set {setting}\n" for setting in overrides)
    return [(path.name, above + read_text(path, str(path)))]
