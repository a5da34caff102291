"""Everything found wrong with one draft, so that all of it is said at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from simgpu.config.draft import Draft
from simgpu.errors import Issue
from simgpu.io.yaml_file import FieldPath


@dataclass(slots=True, kw_only=True)
class Findings:
    """Collects issues; later checks ask whether the fields that they need are sound.

    Parameters
    ----------
    draft : Draft
    issues : list of Issue
    bad : list of path
        Fields that are wrong or absent.

    Examples
    --------
    >>> findings = Findings(draft=Draft(data={"parallel": {"tp": 0}}, source="s.yaml"))
    >>> findings.add("parallel.tp", "is below 1")
    >>> findings.sound("parallel.tp"), findings.sound("parallel.pp"), findings.sound("parallel")
    (False, True, False)
    """

    draft: Draft
    issues: list[Issue] = field(default_factory=list)
    bad: list[FieldPath] = field(default_factory=list)

    def add(self, dotted: str, problem: str, *, allowed: str | None = None, fix: str | None = None) -> None:
        """Note that a field is wrong; its value and place come from the draft.

        Parameters
        ----------
        dotted : str
            The field's dotted path.
        problem : str
        allowed, fix : str, optional
        """
        path = tuple(dotted.split("."))
        self.note(path, self.draft.issue(path, problem, value=self.draft.get(path), allowed=allowed, fix=fix))

    def note(self, path: FieldPath, issue: Issue) -> None:
        """Note an issue that was made elsewhere.

        Parameters
        ----------
        path : tuple of str or int
        issue : Issue
        """
        self.bad.append(path)
        self.issues.append(issue)

    def adopt(self, issues: Iterable[Issue], *, home: str | None = None) -> None:
        """Note issues of a layer below, which knows fields but not where they were written.

        Parameters
        ----------
        issues : iterable of Issue
        home : str, optional
            The scenario's field that is to blame; each issue's own field by default.
        """
        for issue in issues:
            path = tuple((home or issue.field).split("."))
            if issue.file is None:
                place = self.draft.place(path)
                issue = replace(issue, field=issue.field or ".".join(path), file=place.file, line=place.line)
            self.note(path, issue)

    def sound(self, *dotted: str) -> bool:
        """Return whether none of these fields, nor anything in or around them, was found wrong.

        Parameters
        ----------
        dotted : str

        Returns
        -------
        bool
        """
        return not any(_related(tuple(name.split(".")), bad) for name in dotted for bad in self.bad)

    def value(self, dotted: str) -> Any:
        """Return what the draft has at a dotted path, or None.

        Parameters
        ----------
        dotted : str

        Returns
        -------
        object or None
        """
        return self.draft.get(tuple(dotted.split(".")))


def _related(one: FieldPath, other: FieldPath) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]
