"""One case of a scenario, for commands that look at a single step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simgpu.errors import Issue, ScenarioError

if TYPE_CHECKING:
    from simgpu.config.case import Case


def one_case(scenario: str, *, overrides: Sequence[str] = (), name: str | None = None) -> Case:
    """Load a scenario and choose one of its cases.

    Parameters
    ----------
    scenario : str
        File, or the name of a bundled one.
    overrides : sequence of str
        ``a.b=value`` settings.
    name : str or None
        Of the variant; needed where there are several.

    Returns
    -------
    Case

    Raises
    ------
    ScenarioError
        When the scenario is at fault, or the name does not tell which case is meant.

    Examples
    --------
    >>> one_case("pipeline_bubble", name="M = 8").training.accumulation
    8
    """
    from simgpu.config.load import load_scenario

    cases = load_scenario(scenario, overrides=overrides).cases
    if name is None and len(cases) == 1:
        return cases[0]
    found = [case for case in cases if case.name == name]
    if found:
        return found[0]
    allowed = ", ".join(f'"{case.name}"' for case in cases)
    problem = "one step is wanted, and the scenario has several" if name is None else "is no case of the scenario"
    raise ScenarioError(
        [Issue(field="--case", value=name, problem=problem, allowed=allowed, fix="choose one", file=scenario)]
    )
