"""What to say of a file that no reader recognises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError

_STRANGERS: Final[Mapping[str, tuple[frozenset[str], str]]] = {  # keys that tell, and what is wrong
    "a SimGPU scenario already": (frozenset({"model", "cluster"}), "run it with simgpu run"),
    "verl's, whose step is more than one model's training": (
        frozenset({"actor_rollout_ref"}),
        "give one model's training",
    ),
    "a manifest of Kubernetes": (frozenset({"apiVersion", "kind"}), "give the command of its containers as a script"),
    "a task of SkyPilot": (frozenset({"resources", "run"}), "give what stands under run as a script"),
}
_SHOWN: Final = 6  # keys
_LAUNCHERS: Final = (
    "torchrun, deepspeed, accelerate launch, python, llamafactory-cli, axolotl, trl, swift, tune, oumi, litgpt, "
    "composer, alone or behind srun, mpirun, jsrun and the like"
)


def unknown_kind(source: str, data: Mapping[str, Any] | None, labels: Iterable[str]) -> ScenarioError:
    """Say that a file is of no known kind, by its keys where it has any.

    Parameters
    ----------
    source : str
        Its name.
    data : mapping or None
        Its content, where it has keys.
    labels : iterable of str
        What people call the kinds that are read.

    Returns
    -------
    ScenarioError

    Examples
    --------
    >>> print(str(unknown_kind("x.yaml", {"model": "gpt2", "cluster": {}}, [])))
    x.yaml: is a SimGPU scenario already; fix: run it with simgpu run
    >>> print(str(unknown_kind("x.yaml", {"spam": 1, "eggs": 2}, [])).split(";")[0])
    x.yaml: is no configuration of a known kind: its keys are spam, eggs
    """
    keys = list(data or ())
    for name, (telling, fix) in _STRANGERS.items():
        if telling <= set(keys):
            return ScenarioError([Issue(field="", problem=f"is {name}", fix=fix, file=source)])
    shown = ", ".join(str(key) for key in islice(keys, _SHOWN))
    more = ", ..." if len(keys) > _SHOWN else ""
    problem = "is no configuration of a known kind" + (f": its keys are {shown}{more}" if shown else "")
    return ScenarioError([Issue(field="", problem=problem, allowed=", ".join(dict.fromkeys(labels)), file=source)])


def no_launch_line(source: str) -> ScenarioError:
    """Say that a shell script starts nothing that is known.

    Parameters
    ----------
    source : str
        Its name.

    Returns
    -------
    ScenarioError

    Examples
    --------
    >>> print(str(no_launch_line("run.sh")).split(";")[0])
    run.sh: has no launch line that is known
    """
    problem, fix = "has no launch line that is known", "give the script that starts the training"
    return ScenarioError([Issue(field="", problem=problem, allowed=_LAUNCHERS, fix=fix, file=source)])
