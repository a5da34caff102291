"""One thing that the figures of a run rest on, with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """A constant, a choice or a default.

    Parameters
    ----------
    topic : str
        What it belongs to: ``GPU``, ``communication``, ``software``, ``memory``, ``scenario``.
    what : str
        Its name, in words.
    value : str
    standing : str
        How sure it is: ``measured``, ``assumed``, ``default``, ...
    source : str
        Where it comes from; empty when the scenario says so itself.
    """

    topic: str
    what: str
    value: str
    standing: str = ""
    source: str = ""
