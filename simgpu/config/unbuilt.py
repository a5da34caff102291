"""What the schema lists and SimGPU does not simulate: refused by name, never ignored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from simgpu import __version__
from simgpu.config.block import Block
from simgpu.config.findings import Findings
from simgpu.config.scenario_block import ScenarioBlock

RELEASE: Final = ".".join(__version__.split(".")[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbuilt:
    """A field, or values of a field, without simulation behind it.

    Parameters
    ----------
    path : str
        Dotted path of the field.
    what : str
        What it stands for, after "does not".
    allowed : tuple
        Values that are simulated; empty when the field must be left out.
    """

    path: str
    what: str
    allowed: tuple[Any, ...] = ()


UNBUILT: Final = (
    Unbuilt(path="perturb.seed", what="simulate random disturbances"),
    Unbuilt(path="perturb.jitter", what="simulate random disturbances"),
    Unbuilt(path="perturb.slow_ranks", what="simulate slow ranks"),
)


def refuse_unbuilt(scenario: ScenarioBlock, findings: Findings) -> None:
    """Note every field that asks for something SimGPU does not simulate.

    Parameters
    ----------
    scenario : ScenarioBlock
    findings : Findings

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> data = {"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "training": {}, "perturb": {"seed": 1}}
    >>> findings = Findings(draft=Draft(data=data, source="s.yaml"))
    >>> refuse_unbuilt(ScenarioBlock.model_validate(data), findings)
    >>> print(findings.issues[0])
    s.yaml: perturb.seed = 1: SimGPU 0.1 does not simulate random disturbances; fix: leave it out
    """
    for unbuilt in UNBUILT:
        value = _value(scenario, unbuilt.path)
        if value is None or (isinstance(value, Block) and unbuilt.allowed) or value in unbuilt.allowed:
            continue
        findings.add(
            unbuilt.path,
            f"SimGPU {RELEASE} does not {unbuilt.what}",
            allowed=_list(unbuilt.allowed) or None,
            fix=None if unbuilt.allowed else "leave it out",
        )


def note_for_editors(path: str) -> str:
    """Return the sentence about a field that an editor shows, or an empty text.

    Parameters
    ----------
    path : str
        Dotted path of the field.

    Returns
    -------
    str

    Examples
    --------
    >>> note_for_editors("perturb.jitter")
    'SimGPU 0.1 does not simulate this.'
    >>> note_for_editors("parallel.tp")
    ''
    """
    for unbuilt in UNBUILT:
        if unbuilt.path == path:
            return (
                f"SimGPU {RELEASE} simulates only: {_list(unbuilt.allowed)}."
                if unbuilt.allowed
                else f"SimGPU {RELEASE} does not simulate this."
            )
    return ""


def simulated_values(path: str) -> tuple[Any, ...]:
    """Return the values of a field that are simulated, where the schema lists more; else nothing.

    Parameters
    ----------
    path : str
        Dotted path of the field.

    Returns
    -------
    tuple

    Examples
    --------
    >>> simulated_values("parallel.tp")
    ()
    """
    return next((unbuilt.allowed for unbuilt in UNBUILT if unbuilt.path == path), ())


def _list(values: tuple[Any, ...]) -> str:
    return ", ".join(str(value).lower() for value in values)


def _value(scenario: ScenarioBlock, path: str) -> Any:
    here: Any = scenario
    for part in path.split("."):
        if not isinstance(here, Block):
            return None
        here = getattr(here, part)
    return here
