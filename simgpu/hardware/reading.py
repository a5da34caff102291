"""Reading fields of a description, collecting every problem instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from simgpu.errors import Issue, ScenarioError, TopologyError
from simgpu.hardware.table import suggestion
from simgpu.units import QuantityError

T = TypeVar("T")
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a quantity may be: ``least`` to ``most`` in its parsed unit, and the same in words."""

    least: int
    most: int
    allowed: str


@dataclass(slots=True, kw_only=True)
class Reading:
    """One pass over a description. ``source`` names its file in messages."""

    source: str
    issues: list[Issue] = field(default_factory=list)

    def problem(
        self, where: str, problem: str, *, value: object = None, allowed: str | None = None, fix: str | None = None
    ) -> None:
        """Note something wrong with the field ``where``."""
        shown = None if value is None else str(value)
        file = self.source or None
        self.issues.append(Issue(field=where, problem=problem, value=shown, allowed=allowed, fix=fix, file=file))

    def finish(self) -> None:
        """Raise everything found, if anything was."""
        if self.issues:
            raise ScenarioError(self.issues)

    def mapping(self, value: object, where: str, allowed: Sequence[str] | None = None) -> Mapping[str, Any]:
        """Read a mapping whose keys are among ``allowed`` (any, when None); an empty one after a problem."""
        if not isinstance(value, Mapping):
            self.problem(where, "is not a mapping", value=value, fix="write fields as 'name: value'")
            return _NOTHING
        for key in value if allowed is not None else ():
            if key not in (allowed or ()):
                self.problem(
                    f"{where}.{key}" if where else str(key),
                    "is no field here",
                    allowed=", ".join(allowed or ()),
                    fix=suggestion(str(key), allowed or ()) or "remove it",
                )
        return value

    def whole(self, mapping: Mapping[str, Any], key: str, where: str, *, default: int, most: int) -> int:
        """Read a whole number from 1 to ``most``."""
        value = mapping.get(key)
        if value is None:
            return default
        allowed = f"1 to {most:,}"
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.problem(f"{where}.{key}", "is no whole number above zero", value=value, allowed=allowed)
            return default
        if value > most:
            self.problem(f"{where}.{key}", "is too large to be meant", value=value, allowed=allowed)
            return default
        return value

    def text(self, mapping: Mapping[str, Any], key: str, where: str, *, fix: str | None = None) -> str:
        """Read a text; ``fix`` says what to write when it is missing, and makes it required."""
        value = mapping.get(key)
        if value is None:
            if fix is not None:
                self.problem(f"{where}.{key}" if where else key, "is missing", fix=fix)
            return ""
        if not isinstance(value, str):
            self.problem(f"{where}.{key}" if where else key, "is no text", value=value, fix=fix)
            return ""
        return value

    def quantity(
        self, mapping: Mapping[str, Any], key: str, where: str, parse: Callable[[object], int], bounds: Bounds
    ) -> int | None:
        """Read a quantity with its unit; None when absent, wrong or out of bounds."""
        value = mapping.get(key)
        if value is None:
            return None
        try:
            found = parse(value)
        except QuantityError as error:
            allowed = f"{error.allowed}; {bounds.allowed}"
            self.problem(f"{where}.{key}", error.problem, value=value, allowed=allowed, fix=error.fix or None)
            return None
        if found == 0 and bounds.least > 0:
            self.problem(
                f"{where}.{key}",
                "is zero: nothing could ever cross",
                value=value,
                allowed=bounds.allowed,
                fix="remove the link",
            )
            return None
        if not bounds.least <= found <= bounds.most:
            size = "small" if found < bounds.least else "large"
            self.problem(f"{where}.{key}", f"is too {size} to be meant", value=value, allowed=bounds.allowed)
            return None
        return found

    def lookup(self, find: Callable[[], T], where: str) -> T | None:
        """Look something up in a catalogue; None, with the catalogue's message as the problem, when it is absent."""
        try:
            return find()
        except TopologyError as error:
            problem, _, hint = str(error).partition("; ")
            self.problem(where, problem, fix=hint or None)
            return None

    def choice(self, value: str, where: str, allowed: Iterable[str]) -> bool:
        """Check that a text is one of a few."""
        known = tuple(allowed)
        if value in known:
            return True
        self.problem(where, "is not known", value=value, allowed=", ".join(known), fix=suggestion(value, known) or None)
        return False
