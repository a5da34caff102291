"""What a search found: every candidate with its fate, the fastest that fits first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simgpu.metrics.verdict import WORDS
from simgpu.units import format_bytes, format_time

SCHEMA: Final = 1
WINNER, SLOWER, OUT_OF_MEMORY = "winner", "slower", "out_of_memory"
BOUND, MEMORY_BOUND, INVALID, FAILED = "bound", "memory_bound", "invalid", "failed"
"""Fates: simulated (fastest, slower, does not fit); not simulated, since its bound is no better or its memory bound is
above what there is; cannot be laid out; lost."""

_ORDER: Final = (WINNER, SLOWER, BOUND, OUT_OF_MEMORY, MEMORY_BOUND, INVALID, FAILED)
_SIMULATED: Final = (WINNER, SLOWER, OUT_OF_MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateResult:
    """One candidate after the search.

    Parameters
    ----------
    index : int
        Its place in canonical order.
    set : mapping
        Axis to value; axes that mean nothing for it are left out.
    status : str
    reason : str
        Why it is not the winner, in a sentence; of the winner empty.
    bound_ns, memory_bound_bytes : int or None
        What it cannot be below; None for one that cannot be laid out.
    numbers : mapping
        As of a sweep's point; empty unless simulated.
    """

    index: int
    set: Mapping[str, Any]
    status: str
    reason: str
    bound_ns: int | None = None
    memory_bound_bytes: int | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def step_time_ns(self) -> int | None:
        """The simulated step, None for one that was not simulated."""
        return self.numbers.get("step_time_ns")

    @property
    def label(self) -> str:
        """What sets it apart, such as ``tp 8, pp 4``."""
        return ", ".join(f"{axis} {_text(value)}" for axis, value in self.set.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Every candidate of a search.

    Parameters
    ----------
    name : str
        Title of the scenario.
    axes : mapping of str to tuple
        The values that were searched.
    candidates : tuple of CandidateResult
        In canonical order.
    scenario : mapping or None
        The winner's, as plain data; None when nothing fits.
    """

    name: str
    axes: Mapping[str, tuple[Any, ...]]
    candidates: tuple[CandidateResult, ...]
    scenario: Mapping[str, Any] | None

    @property
    def winner(self) -> CandidateResult | None:
        """The fastest that fits; of equally fast ones the first in canonical order."""
        return next((one for one in self.candidates if one.status == WINNER), None)

    @property
    def simulated(self) -> int:
        """How many candidates were simulated."""
        return sum(one.status in _SIMULATED for one in self.candidates)

    def ranked(self) -> list[CandidateResult]:
        """Return all candidates: simulated ones that fit by step, then the others by bound, last what does not fit."""

        def key(one: CandidateResult) -> tuple[int, int, int]:
            time = one.step_time_ns if one.step_time_ns is not None else one.bound_ns
            return _ORDER.index(one.status), time or 0, one.index

        return sorted(self.candidates, key=key)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``; docs/searches.md has the keys, which schema 1 keeps."""
        winner = self.winner
        return {
            "schema": SCHEMA,
            "name": self.name,
            "axes": {
                axis: [list(v) if isinstance(v, tuple) else v for v in values] for axis, values in self.axes.items()
            },
            "simulated": self.simulated,
            "winner": None if winner is None else winner.index,
            "scenario": None if self.scenario is None else dict(self.scenario),
            "candidates": [
                {
                    "index": one.index,
                    "set": {axis: list(v) if isinstance(v, tuple) else v for axis, v in one.set.items()},
                    "status": one.status,
                    "reason": one.reason,
                    "bound_ns": one.bound_ns,
                    "memory_bound_bytes": one.memory_bound_bytes,
                    **one.numbers,
                }
                for one in self.ranked()
            ],
        }

    def __str__(self) -> str:
        """Say which strategy is fastest and what became of the others."""
        winner = self.winner
        counts = Counter(one.status for one in self.candidates)
        parts = [
            f"{counts[status]:,} {words}"
            for status, words in (
                (SLOWER, "simulated and slower"),
                (OUT_OF_MEMORY, "simulated and out of memory"),
                (BOUND, "that cannot be faster, not simulated"),
                (MEMORY_BOUND, "that cannot fit, not simulated"),
                (INVALID, "that cannot be laid out"),
                (FAILED, "failed: run the search again to try them once more"),
            )
            if counts[status]
        ]
        total = f"{len(self.candidates):,} strategies, {self.simulated:,} simulated"
        rest = f"{total}: {', '.join(parts)}" if parts else total
        if winner is None:
            return f"No strategy fits\n{rest}"
        numbers = winner.numbers
        memory = f"{format_bytes(numbers['peak_memory_bytes'])} of {format_bytes(numbers['capacity_bytes'])}"
        return f"Fastest that fits: {winner.label}: {format_time(numbers['step_time_ns'])} a step, {memory}\n{rest}"


def why_slower(numbers: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    """Say what makes a step longer than the best one.

    Parameters
    ----------
    numbers, best : mapping
        Of a sweep's points.

    Returns
    -------
    str
        The class that grew most, and by how much.

    Examples
    --------
    >>> best = {"step_time_ns": 10_000_000, "breakdown_ns": {"bubble": 0.0, "compute.gemm": 10e6}}
    >>> why_slower({"step_time_ns": 12_500_000, "breakdown_ns": {"bubble": 3e6, "compute.gemm": 9.5e6}}, best)
    '25.0 % slower: pipeline bubble +3 ms'
    """
    mine, theirs = numbers["breakdown_ns"], best["breakdown_ns"]
    slower = numbers["step_time_ns"] / best["step_time_ns"] - 1 if best["step_time_ns"] else 0.0
    grown = {name: mine.get(name, 0.0) - theirs.get(name, 0.0) for name in {**mine, **theirs}}
    name = max(sorted(grown), key=lambda each: grown[each])
    if numbers["step_time_ns"] == best["step_time_ns"]:
        return "as fast, later in canonical order"
    return f"{100 * slower:.1f} % slower: {WORDS.get(name, name)} +{format_time(grown[name])}"


def _text(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
