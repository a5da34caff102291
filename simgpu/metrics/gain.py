"""What a step would gain from a change of machine or program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simgpu.units import format_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """A changed run beside the run itself.

    Parameters
    ----------
    change : str
        As ``--what-if`` takes it: ``nvlink=2x``.
    words : str
        The same for people.
    step_time_ns : int
        Of the changed run.
    share : float
        Of the step that is saved; negative where the change makes it longer.

    Examples
    --------
    >>> print(Gain(change="tp=free", words="no tp communication", step_time_ns=890_000_000, share=0.11))
    no tp communication: −11.0 % (890 ms)
    """

    change: str
    words: str
    step_time_ns: int
    share: float

    @property
    def percent(self) -> str:
        """By how much the step changes: minus for a shorter one."""
        tenths = round(1000 * self.share)  # rounded first: no sign before a zero
        sign = "−" if tenths > 0 else "+" if tenths < 0 else "±"
        return f"{sign}{abs(tenths) / 10} %"

    def __str__(self) -> str:
        return f"{self.words}: {self.percent} ({format_time(self.step_time_ns)})"


def gains_text(gains: Iterable[Gain]) -> str:
    """Write gains in one line.

    Parameters
    ----------
    gains : iterable of Gain

    Returns
    -------
    str
    """
    return "; ".join(map(str, gains))


def gains_to_json(gains: Iterable[Gain]) -> list[dict[str, Any]]:
    """Return plain data: ``change``, ``step_time_ns`` and ``share`` of each.

    Parameters
    ----------
    gains : iterable of Gain

    Returns
    -------
    list of dict
    """
    return [{"change": one.change, "step_time_ns": one.step_time_ns, "share": one.share} for one in gains]
