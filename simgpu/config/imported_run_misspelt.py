"""Misspelt keys of the files of a run, said where the run is refused because something is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.reading import Reading


def with_misspelt(error: ScenarioError, readings: Sequence[Reading]) -> ScenarioError:
    """Return an error with the keys that are not understood and almost have a known name.

    Parameters
    ----------
    error : ScenarioError
    readings : sequence of Reading

    Returns
    -------
    ScenarioError
        As it is where it finds fault with a value that is there and speaks of no such name, and without such a key.

    Examples
    --------
    >>> missing = ScenarioError([Issue(field="model", problem="is missing", fix="add --model")])
    >>> reading = Reading(source="a.sh", kind="launch-line", settings={}, unknown=("modl",), near={"modl": "model"})
    >>> print(with_misspelt(missing, [reading]))
    model: is missing; fix: add --model; a.sh has modl, which is not understood: did you mean model?
    """
    near = [(reading.source, key, meant) for reading in readings for key, meant in reading.near.items()]
    issues = list(error.issues)
    at = next((at for at, issue in enumerate(issues) if _is_missing(issue)), None)
    if at is None:
        spoken = [(at, one) for at, issue in enumerate(issues) for one in near if _speaks_of(issue, one[2])]
        at, near = (spoken[0][0], [*dict.fromkeys(one for _, one in spoken)]) if spoken else (None, [])
    if not near or at is None:
        return error
    told = "; ".join(
        f"{source} has {key}, which is not understood: did you mean {meant}?" for source, key, meant in near
    )
    fix = issues[at].fix
    issues[at] = replace(issues[at], fix=f"{fix}; {told}" if fix else told)
    return ScenarioError(issues)


def _is_missing(issue: Issue) -> bool:
    return issue.value is None and issue.field not in ("topology", "gpus")


def _speaks_of(issue: Issue, name: str) -> bool:
    """Return whether an issue names a key, with dashes or underscores and with or without its block."""
    text, last = (words.replace("-", "_").lower() for words in (str(issue), name.rpartition(".")[2]))
    return last.strip("_") in text
