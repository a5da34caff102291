"""``--nproc_per_node gpu`` and ``auto`` of torchrun: as many processes as a node has GPUs.

pytorch/pytorch ``torch/distributed/run.py`` (determine_local_world_size).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError

_NAMES: Final = ("nproc_per_node", "nproc")
_ALL: Final = ("gpu", "auto")
_OF_A_NODE: Final = ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE", "GPUS_PER_NODE")
_OF_SRUN: Final = ("gpus_per_node", "gres")


def counted(
    options: Mapping[str, Any], environment: Mapping[str, str], variables: Mapping[str, str],
    wrapper: Mapping[str, str], *, source: str,
) -> tuple[dict[str, Any], bool]:  # fmt: skip
    """Write the number for ``gpu`` and ``auto``.

    Parameters
    ----------
    options : mapping
        Of torchrun, dashes as underscores.
    environment, variables, wrapper : mapping of str to str
        Of `LaunchLine`.
    source : str
        Name of the script for messages.

    Returns
    -------
    (dict, bool)
        The options, without this one where nothing of the script tells the number; whether that is so.

    Raises
    ------
    ScenarioError
        For ``cpu``.

    Examples
    --------
    >>> counted({"nproc_per_node": "gpu"}, {"CUDA_VISIBLE_DEVICES": "0,1"}, {}, {}, source="run.sh")
    ({'nproc_per_node': '2'}, False)
    >>> counted({"nnodes": "2", "nproc_per_node": "auto"}, {}, {}, {}, source="run.sh")
    ({'nnodes': '2'}, True)
    """
    name = next((name for name in _NAMES if name in options), "")
    word = options.get(name)
    if word == "cpu":
        problem, fix = "starts a process on each core of the CPU", "write the number of GPUs that a node has, or gpu"
        raise ScenarioError([Issue(field=f"--{name}", value=word, problem=problem, fix=fix, file=source)])
    if word not in _ALL:
        return dict(options), False
    visible = environment.get("CUDA_VISIBLE_DEVICES", "").strip(" ,")
    if re.fullmatch(r"\d+(\s*,\s*\d+)*", visible):
        return {**options, name: str(len(visible.split(",")))}, False
    found = _first(wrapper, _OF_SRUN) or _first(variables, _OF_A_NODE)
    if found:
        return {**options, name: found}, False
    return {key: value for key, value in options.items() if key != name}, True


def _first(values: Mapping[str, str], names: Sequence[str]) -> str:
    """Return the first number that one of these names has: ``gpu:a100:4`` is four."""
    texts = [str(values.get(name, "")).rpartition(":")[2] for name in names]
    return next((text for text in texts if re.fullmatch(r"0*[1-9]\d{0,8}", text)), "")
