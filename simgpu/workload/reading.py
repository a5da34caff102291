"""A Reading: one model description being read, collecting every problem instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from simgpu.errors import ModelError


class Reading:
    """Typed access to a plain mapping; problems add up until `finish` raises them together.

    Parameters
    ----------
    fields : mapping
        What was read from JSON or YAML.
    name : str
        What messages call the model.

    Examples
    --------
    >>> reading = Reading({"layers": True, "hidden": 64}, "mine")
    >>> reading.integer("hidden"), reading.integer("layers")
    (64, 1)
    >>> reading.finish()
    Traceback (most recent call last):
        ...
    simgpu.errors.ModelError: model mine: layers = True must be a whole number of at least 1
    """

    def __init__(self, fields: Mapping[str, Any], name: str) -> None:
        self.fields = fields
        self.name = name
        self.problems: list[str] = []

    def get(self, *keys: str) -> tuple[str, Any]:
        """Return the first of the alias keys that is present and not null, with its value; None when none is."""
        for key in keys:
            if self.fields.get(key) is not None:
                return key, self.fields[key]
        return keys[0], None

    def integer(self, *keys: str, default: int | None = None, least: int = 1) -> int:
        """Return a whole number of at least ``least``; a problem is noted, and 1 returned, when there is none."""
        key, value = self.get(*keys)
        if value is None:
            if default is not None:
                return default
            self.problem(f"{' or '.join(keys)} is missing")
            return 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.problem(f"{key} = {value!r} must be a whole number of at least {least}")
            return 1
        return value

    def flag(self, *keys: str, default: bool) -> bool:
        """Return true or false; anything else is a problem."""
        key, value = self.get(*keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.problem(f"{key} = {value!r} must be true or false")
            return default
        return value

    def choice(self, *keys: str, allowed: Mapping[str, str], default: str) -> str:
        """Return what ``allowed`` maps the value to; an unknown value is a problem."""
        key, value = self.get(*keys)
        value = default if value is None else value
        if not isinstance(value, str) or value not in allowed:
            self.problem(f"{key} = {value!r} is not modelled; allowed: {', '.join(allowed)}")
            return allowed[default]
        return allowed[value]

    def problem(self, text: str) -> None:
        """Note a problem."""
        self.problems.append(text)

    def refuse(self, text: str) -> NoReturn:
        """Note a problem and raise all of them."""
        self.problem(text)
        raise self._error()

    def finish(self) -> None:
        """Raise ModelError with every problem noted, if there is any."""
        if self.problems:
            raise self._error()

    def _error(self) -> ModelError:
        return ModelError("\n".join(f"model {self.name}: {problem}" for problem in self.problems))
