"""The weights of one stage, and the gradients that backward completes for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """One weight of a stage, and the gradient that backward completes for it."""

    unit: int  # index of the unit in the stage
    name: str
    elements: int
    vector: bool = False  # one dimension: a bias, the scale of a norm


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWeights:
    """The weights of one stage as data parallelism sees them.

    Parameters
    ----------
    kinds : tuple of str
        Kind of each unit (``embedding``, ``block``, ``head``).
    gradients : tuple of Gradient
        Every trained weight once, in gradient-ready order; registration order is the reverse of it.
    frozen : tuple of Gradient
        Weights that are not trained: stored and gathered, without gradient and optimizer state.
    asleep : frozenset of int
        Units that backward does not enter: nothing up to them is trained.
    tied : mapping of int to int
        Units that also use a weight which another unit of the stage registers (a tied head), and its elements.
    buffer_bytes : int
        State that is not trained and not frozen either: running statistics of batch norms.
    """

    kinds: tuple[str, ...]
    gradients: tuple[Gradient, ...]
    frozen: tuple[Gradient, ...] = ()
    asleep: frozenset[int] = frozenset()
    tied: Mapping[int, int] = field(default_factory=dict)
    buffer_bytes: int = 0

    @property
    def elements(self) -> int:
        """Trained weights."""
        return count(self.gradients)

    @property
    def stored_elements(self) -> int:
        """All weights."""
        return self.elements + count(self.frozen)

    def by_unit(self, *, frozen: bool) -> tuple[tuple[Gradient, ...], ...]:
        """Weights of every unit, in gradient-ready order; frozen ones behind them when asked for."""
        found: list[list[Gradient]] = [[] for _ in self.kinds]
        for weight in (*self.gradients, *(self.frozen if frozen else ())):
            found[weight.unit].append(weight)
        return tuple(tuple(weights) for weights in found)


def count(weights: Iterable[Gradient]) -> int:
    """Elements of some weights.

    Examples
    --------
    >>> count([Gradient(unit=0, name="a", elements=2), Gradient(unit=1, name="b", elements=3)])
    5
    """
    return sum(weight.elements for weight in weights)
