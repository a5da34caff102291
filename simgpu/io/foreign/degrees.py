"""Parallel degrees of a job by the names of its file: they multiply to its ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from simgpu.errors import Issue, ScenarioError


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """Ranks of every axis, all of which the file gives.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    framework : str
        Who refuses another number of ranks.
    sizes : mapping of str to int
        By the file's key; an axis that it leaves out has 1.

    Examples
    --------
    >>> degrees = Degrees(source="n.yaml", framework="nanotron", sizes={"parallelism.dp": 2, "parallelism.tp": 4})
    >>> degrees.ranks
    8
    >>> degrees.check(8, "run.sh")
    >>> degrees.check(16, "run.sh")
    Traceback (most recent call last):
    ...
    simgpu.errors.ScenarioError: n.yaml: parallelism.dp = 2: with tp 4 is a job of 8 ranks in nanotron, ...
    """

    source: str
    framework: str
    sizes: Mapping[str, int]

    @property
    def ranks(self) -> int:
        """Return the ranks of the job, the product of the degrees."""
        return math.prod(self.sizes.values())

    def check(self, ranks: int, started_by: str) -> None:
        """Refuse a job that starts with another number of ranks.

        Parameters
        ----------
        ranks : int
        started_by : str
            Who says so: a launch script, or an option.

        Raises
        ------
        ScenarioError
            Naming the first degree above 1, or the first of all.
        """
        if ranks == self.ranks:
            return
        wide = {key: size for key, size in self.sizes.items() if size > 1} or dict(list(self.sizes.items())[:1])
        first, *others = wide.items()
        beside = " x ".join(f"{key.rpartition('.')[2]} {size}" for key, size in others)
        own = f"{self.ranks} rank{'s' if self.ranks > 1 else ''}"
        problem = (
            f"{f'with {beside} ' if beside else ''}is a job of {own} in {self.framework}, "
            f"and {started_by} starts {ranks}"
        )
        fix = f"start {own}, or set degrees whose product is {ranks}"
        raise ScenarioError([Issue(field=first[0], value=str(first[1]), problem=problem, fix=fix, file=self.source)])
