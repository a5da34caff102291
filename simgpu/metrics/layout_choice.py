"""Whether predictions choose the right layout among measured ones of the same work on the same machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol


class Measured(Protocol):
    """A measured run and its prediction."""

    @property
    def setting(self) -> str:
        """What was trained on what, without the layout; empty where that is unknown."""

    @property
    def measured_step_s(self) -> float:
        """Step in seconds."""

    @property
    def predicted_step_s(self) -> float:
        """Step in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChoice:
    """How well layouts were told apart.

    Parameters
    ----------
    settings : int
        Models with a batch and GPUs that were measured in several layouts.
    regret : float
        Mean over settings: measured step of the layout that is predicted to be the fastest, over the fastest measured
        one, less one.
    pairs : int
        Of layouts of one setting whose measured steps differ.
    ordered : float
        Share of them whose predictions differ in the same direction.
    """

    settings: int
    regret: float
    pairs: int
    ordered: float


def layout_choice(runs: Iterable[Measured]) -> LayoutChoice | None:
    """Sum up over the settings that were measured in more than one layout.

    Parameters
    ----------
    runs : iterable of Measured

    Returns
    -------
    LayoutChoice or None
        None without such settings.

    Examples
    --------
    >>> from simgpu.metrics.validation import ValidatedRun
    >>> runs = [ValidatedRun(id="", family="", setting="a", measured_step_s=m, predicted_step_s=p)
    ...         for m, p in ((1.0, 1.0), (1.1, 0.9), (2.0, 2.5))]
    >>> found = layout_choice(runs)
    >>> found.settings, round(found.regret, 2), found.pairs, round(found.ordered, 2)
    (1, 0.1, 3, 0.67)
    """
    settings: dict[str, list[Measured]] = {}
    for run in runs:
        if run.setting:
            settings.setdefault(run.setting, []).append(run)
    groups = [found for found in settings.values() if len(found) > 1]
    if not groups:
        return None
    regrets, pairs, ordered = [], 0, 0
    for group in groups:
        chosen = min(group, key=lambda run: run.predicted_step_s)
        regrets.append(chosen.measured_step_s / min(run.measured_step_s for run in group) - 1)
        for a, b in combinations(group, 2):
            if a.measured_step_s != b.measured_step_s:
                pairs += 1
                fast, slow = (a, b) if a.measured_step_s < b.measured_step_s else (b, a)
                ordered += fast.predicted_step_s < slow.predicted_step_s
    return LayoutChoice(
        settings=len(groups), regret=sum(regrets) / len(regrets), pairs=pairs, ordered=ordered / pairs if pairs else 1.0
    )
