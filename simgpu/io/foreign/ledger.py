"""A configuration as its reader goes through it: typed values, and which keys were understood."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from simgpu.errors import Issue, ScenarioError, printable
from simgpu.io.foreign.document import Document
from simgpu.io.foreign.key_account import KeyAccount
from simgpu.io.foreign.reading import Reading

_VARIABLE: Final = re.compile(r"\$[\w{(]|`")
_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("false", "no", "off", "0", "none", "null", "")
AUTO: Final = "auto"


class Ledger:
    """Hands out the values of a nested mapping by dotted keys, and keeps account of the keys.

    Parameters
    ----------
    document : Document

    Examples
    --------
    >>> ledger = Ledger(Document(source="x.json", data={"zero": {"stage": 3, "speed": 9}, "log": 1, "batch": "auto"}))
    >>> ledger.integer("zero.stage"), ledger.integer("batch"), ledger.integer("absent")
    (3, None, None)
    >>> ledger.idle("log")
    >>> reading = ledger.reading("demo", {})
    >>> reading.used, reading.idle, reading.unknown, dict(reading.open)
    (('zero.stage', 'batch'), ('log',), ('zero.speed',), {'batch': 'auto'})
    """

    def __init__(self, document: Document) -> None:
        self.source = document.source
        self.data = document.data
        self.lines = document.lines
        self.notes: list[str] = []
        self.open: dict[str, str] = {}
        self.matched: dict[str, Any] = {}
        self.written: Mapping[str, str] = {}
        self._account = KeyAccount(self.data)

    def raw(self, key: str) -> Any:
        """Return what stands at a dotted key, without any account of it; None when it is absent.

        Parameters
        ----------
        key : str

        Returns
        -------
        object or None
        """
        self._account.ask(key)
        here: Any = self.data
        for part in key.split("."):
            here = here.get(part) if isinstance(here, Mapping) else None
        return here

    def get(self, key: str) -> Any:
        """Return the value of a dotted key and note that it is used; None when it is absent, null or auto.

        Parameters
        ----------
        key : str

        Returns
        -------
        object or None
        """
        here = self.raw(key)
        if here is None:
            return None
        if not isinstance(here, Mapping) or not here:
            self._account.use(key)
        if isinstance(here, str) and here.lower() == AUTO:
            self.open[key] = here
            return None
        return here

    def _known(self, key: str) -> Any:
        """Return a value, and refuse a variable in it that the file does not set."""
        value = self.get(key)
        if isinstance(value, str) and _VARIABLE.search(value):
            self.refuse(
                key, "is a variable whose value the file does not give", fix="write the value that the job uses"
            )
        return value

    def flag(self, key: str) -> bool | None:
        """Return a truth value, which may be written as text.

        Parameters
        ----------
        key : str

        Returns
        -------
        bool or None

        Raises
        ------
        ScenarioError
        """
        value = self._known(key)
        if value is None or isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise self.refused(key, "is neither true nor false", allowed="true, false")

    def integer(self, key: str, *, least: int = 0) -> int | None:
        """Return a whole number, which may be written as 5e8 or as text.

        Parameters
        ----------
        key : str
        least : int

        Returns
        -------
        int or None

        Raises
        ------
        ScenarioError
        """
        value = self._known(key)
        if value is None:
            return None
        if isinstance(value, list):
            self.refuse(key, "is a list to search through", fix="write the one value that the job uses")
        try:
            number = float(str(value).replace("_", "")) if not isinstance(value, bool) else float("nan")
            whole = int(number)
        except (ValueError, OverflowError):
            self.refuse(key, "is no whole number")
        if whole != number:
            self.refuse(key, "is no whole number")
        if whole < least:
            self.refuse(key, f"is below {least}")
        return whole

    def number(self, key: str) -> float | None:
        """Return a finite number, which may be written as text.

        Parameters
        ----------
        key : str

        Returns
        -------
        float or None

        Raises
        ------
        ScenarioError
        """
        value = self._known(key)
        if value is None:
            return None
        try:
            number = float(str(value)) if not isinstance(value, bool) else math.nan
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.refused(key, "is no number")
        return number

    def names(self, key: str) -> list[str]:
        """Return words, which may be a list or text with commas or blanks between them; none when it is absent.

        Parameters
        ----------
        key : str

        Returns
        -------
        list of str

        Raises
        ------
        ScenarioError
        """
        value = self._known(key)
        if isinstance(value, str):
            return value.replace(",", " ").split()
        if value is None or value is False:
            return []
        if not isinstance(value, list) or not all(isinstance(word, str | int) for word in value):
            raise self.refused(key, "is no list of names")
        return [str(word) for word in value]

    def text(self, key: str) -> str | None:
        """Return a word; numbers and truth values are written out.

        Parameters
        ----------
        key : str

        Returns
        -------
        str or None
        """
        value = self._known(key)
        if isinstance(value, (list, dict)):
            self.refuse(key, "is no single word")
        return None if value is None or value == "" else str(value).strip()

    def choice(self, key: str, allowed: Mapping[str, Any]) -> Any:
        """Return what a word stands for.

        Parameters
        ----------
        key : str
        allowed : mapping of lower-case word to value

        Returns
        -------
        object or None

        Raises
        ------
        ScenarioError
        """
        word = self.text(key)
        if word is None:
            return None
        if word.lower() not in allowed:
            self.refuse(key, "is not known here", allowed=", ".join(allowed))
        return allowed[word.lower()]

    def idle(self, *patterns: str) -> None:
        """Note keys, and all below them, as known and without effect on time and memory.

        Parameters
        ----------
        patterns : str
            Dotted keys; ``*`` stands for any text.
        """
        self._account.know(*patterns)

    def note(self, text: str) -> None:
        """Keep something that a reader of the scenario should know."""
        text = printable(text)
        if text not in self.notes:
            self.notes.append(text)

    def refuse(self, key: str, problem: str, *, allowed: str | None = None, fix: str | None = None) -> NoReturn:
        """Refuse the file because of one key.

        Raises
        ------
        ScenarioError
        """
        raise self.refused(key, problem, allowed=allowed, fix=fix)

    def refused(self, key: str, problem: str, *, allowed: str | None = None, fix: str | None = None) -> ScenarioError:
        """Return the error that refuses the file because of one key.

        Parameters
        ----------
        key : str
        problem : str
        allowed, fix : str, optional

        Returns
        -------
        ScenarioError
        """
        here = self.raw(key)
        value = None if here is None or isinstance(here, Mapping) else _shown(here)
        line = self.lines.get(key.split(".")[0]) if "." not in key else None
        return ScenarioError(
            [Issue(field=key, value=value, problem=problem, allowed=allowed, fix=fix, file=self.source, line=line)]
        )

    def reading(
        self, kind: str, settings: Mapping[str, Any], *, gpus: int | None = None, open_fields: Sequence[str] = ()
    ) -> Reading:
        """Close the account.

        Parameters
        ----------
        kind : str
        settings : mapping
            Fields whose value is None are left out.
        gpus : int, optional
        open_fields : sequence of str
            Scenario fields that this file leaves to others.

        Returns
        -------
        Reading
        """
        keys = self._account.sort()
        return Reading(
            source=self.source,
            kind=kind,
            settings={field: value for field, value in settings.items() if value is not None},
            gpus=gpus,
            used=keys.used,
            idle=keys.idle,
            unknown=keys.unknown,
            near=keys.near,
            matched=dict(self.matched),
            written=self.written,
            open={**self.open, **dict.fromkeys(open_fields, AUTO)},
            notes=tuple(self.notes),
        )


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
