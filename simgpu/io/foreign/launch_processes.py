"""``--nproc_per_node gpu`` and ``auto`` of torchrun: as many processes as a node has GPUs.

pytorch/pytorch ``torch/distributed/run.py`` (determine_local_world_size).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.shell_start import GPUS

_NAMES: Final = ("nproc_per_node", "nproc")
_ALL: Final = ("gpu", "auto")
GPUS_OF_A_NODE: Final = ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE", GPUS, "SLURM_GPUS_PER_TASK")
"""What tells the GPUs that a scheduler gives on each node."""
_OF_SRUN: Final = ("gpus_per_node", "gres", "gpus_per_task")


def counted(
    options: Mapping[str, Any], environment: Mapping[str, str], variables: Mapping[str, str],
    wrapper: Mapping[str, str], *, source: str,
) -> tuple[dict[str, Any], str]:  # fmt: skip
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
    (dict, str)
        The options, without this one where nothing of the script tells the number; its words then, empty otherwise.

    Raises
    ------
    ScenarioError
        For ``cpu``.

    Examples
    --------
    >>> counted({"nproc_per_node": "gpu"}, {"CUDA_VISIBLE_DEVICES": "0,1"}, {}, {}, source="run.sh")
    ({'nproc_per_node': '2'}, '')
    >>> counted({"nnodes": "2", "nproc_per_node": "auto"}, {}, {}, {}, source="run.sh")
    ({'nnodes': '2'}, '--nproc_per_node auto')
    """
    name = next((name for name in _NAMES if name in options), "")
    word = options.get(name)
    if word == "cpu":
        problem, fix = "starts a process on each core of the CPU", "write the number of GPUs that a node has, or gpu"
        raise ScenarioError([Issue(field=f"--{name}", value=word, problem=problem, fix=fix, file=source)])
    if word not in _ALL:
        return dict(options), ""
    visible = environment.get("CUDA_VISIBLE_DEVICES", "").strip(" ,")
    if re.fullmatch(r"\d+(\s*,\s*\d+)*", visible):
        return {**options, name: str(len(visible.split(",")))}, ""
    found = gpus_of_node(wrapper, variables) or gpus_of_node({}, {GPUS: variables.get("GPUS_PER_NODE", "")})
    if found:
        return {**options, name: str(found)}, ""
    return {key: value for key, value in options.items() if key != name}, f"--{name} {word}"


def gpus_of_node(wrapper: Mapping[str, str], variables: Mapping[str, str]) -> int | None:
    """Return the GPUs that a scheduler gives on each node; None where neither srun nor the job says it.

    Parameters
    ----------
    wrapper, variables : mapping of str to str
        Of `LaunchLine`.

    Returns
    -------
    int or None

    Examples
    --------
    >>> gpus_of_node({"gres": "gpu:a100:4"}, {}), gpus_of_node({}, {"SLURM_GPUS_ON_NODE": "8"}), gpus_of_node({}, {})
    (4, 8, None)
    """
    given = (*(wrapper.get(name, "") for name in _OF_SRUN), *(variables.get(name, "") for name in GPUS_OF_A_NODE))
    numbers = [text.rpartition(":")[2] for text in given]
    return next((int(text) for text in numbers if re.fullmatch(r"0*[1-9]\d{0,8}", text)), None)
