"""Megatron's arguments by name, wherever they are written: on a command line, in a test's YAML, or as NeMo's keys."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.unset_words import left_out

_DEFAULTED: Final = re.compile(r"\$\{(\w+):?-([^${}]*)\}")
_UNKNOWN: Final = re.compile(r"\$|`|\{\{")
_FALSE: Final = ("false", "no", "0", "none", "null")


class MegatronArguments:
    """Typed access to arguments; a value that a shell variable holds is left open.

    Parameters
    ----------
    ledger : Ledger
        Of the file; it keeps account of the keys.
    keys : mapping of str to str
        The ledger's key for each argument's name, without leading dashes.
    values : mapping of str to object, optional
        Values that are not those of the file, because it writes them in another way.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="a.args", data={"--num-layers": "24", "--bf16": True, "--seq-length": "$7"}))
    >>> arguments = MegatronArguments(ledger, {key[2:]: key for key in ledger.data})
    >>> arguments.integer("num-layers"), arguments.flag("bf16"), arguments.flag("fp16")
    (24, True, False)
    >>> arguments.integer("seq-length", field="training.sequence_length"), ledger.open
    (None, {'training.sequence_length': '--seq-length $7'})
    """

    def __init__(self, ledger: Ledger, keys: Mapping[str, str], values: Mapping[str, Any] | None = None) -> None:
        self.ledger = ledger
        self.keys = keys
        self.values = dict(values or {})

    def has(self, *names: str) -> bool:
        """Return whether one of the arguments is given and not false; that alone is no use of it.

        Parameters
        ----------
        names : str
            ``*`` at the end stands for any text.
        """
        return any(self._given(known) for name in names for known in self._matching(name))

    def key(self, name: str) -> str:
        """Return how the file writes an argument."""
        return self.keys.get(name, f"--{name}")

    def raw(self, name: str, *, field: str | None = None) -> Any:
        """Return a value and note that it is used; None where it is absent, or left open.

        Parameters
        ----------
        name : str
        field : str, optional
            The scenario field that stays open where the value is a shell variable.

        Returns
        -------
        object or None
        """
        key = self.keys.get(name)
        value = self.ledger.get(key) if key is not None else None
        if key is None:
            self.ledger.raw(self._form(name))  # a name that a misspelt one may mean
        if value is None and key in self.ledger.open:
            value = self.ledger.open.pop(key)  # the word auto, which is a value here
        if name in self.values:
            value = self.values[name]
        if not isinstance(value, str) or not _UNKNOWN.search(value):
            return value
        plain = _DEFAULTED.sub(lambda match: match[2], value)
        if _UNKNOWN.search(plain) or not plain:
            if field is not None:
                self.leave_open(field, f"{self.key(name)} {value}")
            return None
        self.ledger.note(f"{self.key(name)} {value} is taken as {plain}, the script's own default")
        return plain

    def integer(self, name: str, *, field: str | None = None, least: int = 0) -> int | None:
        """Return a whole number, which may have underscores.

        Parameters
        ----------
        name : str
        field : str, optional
        least : int

        Returns
        -------
        int or None

        Raises
        ------
        ScenarioError
        """
        value = self._valued(name, field=field)
        if value is None:
            return None
        words = str(value).split()
        text = "" if isinstance(value, bool) or not words else words[0].replace("_", "")
        if re.fullmatch(r"[+-]?\d+(\.0+)?", text) is None and re.fullmatch(r"\d+(\.\d+)?e\+?\d+", text) is None:
            self.refuse(name, "is no whole number")
        size = float(text)
        if math.isinf(size):
            self.refuse(name, "is no whole number")
        number = int(size)
        if number < least:
            self.refuse(name, f"is below {least}")
        return number

    def _valued(self, name: str, *, field: str | None = None) -> Any:
        """Return a value, and refuse an option of a command line that has none behind it."""
        value = self.raw(name, field=field)
        if value is True and self.key(name).startswith("--"):
            problem, fix = "has no value behind it", "write the number that the job uses"
            raise ScenarioError([Issue(field=self.key(name), problem=problem, fix=fix, file=self.ledger.source)])
        return value

    def number(self, name: str) -> float | None:
        """Return a number.

        Raises
        ------
        ScenarioError
        """
        value = self._valued(name)
        if value is None:
            return None
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            self.refuse(name, "is no number")
        return number

    def text(self, name: str, *, field: str | None = None) -> str | None:
        """Return a word; None where it is absent or empty."""
        value = self.raw(name, field=field)
        return None if value is None or value is True or value == "" else str(value).strip()

    def written(self, name: str) -> str:
        """Return a value as the file writes it, variables and all; empty where it is absent."""
        self.raw(name)
        value = self.values.get(name, self._value(name))
        return "" if value is None or isinstance(value, bool) else str(value)

    def flag(self, name: str) -> bool:
        """Return whether a switch is set; words behind it do not belong to it."""
        value = self.raw(name)
        unset = self.values.get(name, self._value(name))
        if value is None and isinstance(unset, str) and self.key(name).startswith("--"):
            self.note(left_out(unset))  # further arguments: on a command line a switch takes no value
            return True
        if isinstance(value, str):
            return value.strip().lower() not in _FALSE
        return value is not None and value is not False and value != 0

    def leave_open(self, field: str, words: str) -> None:
        """Note a scenario field that the file leaves to others, with its words."""
        self.ledger.open[field] = words

    def note(self, text: str) -> None:
        """Keep something that a reader of the scenario should know."""
        self.ledger.note(text)

    def refuse(self, name: str, problem: str, *, allowed: str | None = None, fix: str | None = None) -> NoReturn:
        """Refuse the file because of one argument.

        Raises
        ------
        ScenarioError
        """
        self.ledger.refuse(self.key(name), problem, allowed=allowed, fix=fix)

    def _form(self, name: str) -> str:
        """Return how the file would write an argument that it lacks: as it writes others."""
        block, dot, other = next(iter(self.keys.values()), "--").rpartition(".")
        return f"{block}{dot}--{name}" if other.startswith("--") else f"{block}{dot}{name.replace('-', '_')}"

    def _value(self, name: str) -> Any:
        here: Any = self.ledger.data
        for part in self.keys.get(name, "").split("."):
            here = here.get(part) if isinstance(here, Mapping) else None
        return here

    def _given(self, name: str) -> bool:
        value = self.values.get(name, self._value(name))
        return value is not None and value is not False and str(value).lower() not in _FALSE

    def _matching(self, name: str) -> list[str]:
        if name.endswith("*"):
            return [known for known in {**self.keys, **self.values} if known.startswith(name[:-1])]
        return [name] if name in self.keys or name in self.values else []
