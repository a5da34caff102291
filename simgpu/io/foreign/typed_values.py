"""Values of a nested mapping by dotted keys, each as the type that its reader wants, and refused where it is none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.document import Document
from simgpu.io.foreign.key_account import KeyAccount

_VARIABLE: Final = re.compile(r"\$[\w{(]|`")
_TRUE: Final = ("true", "yes", "on", "1")
FALSE: Final = ("false", "no", "off", "0", "none", "null", "")
"""Words for a switch that is off."""
AUTO: Final = "auto"


class TypedValues:
    """Hands out the values of a document, and notes which keys were looked for and used.

    Parameters
    ----------
    document : Document

    Examples
    --------
    >>> values = TypedValues(Document(source="x.json", data={"zero": {"stage": "3"}, "bf16": "True", "batch": "auto"}))
    >>> values.integer("zero.stage"), values.flag("bf16"), values.integer("batch"), values.open
    (3, True, None, {'batch': 'auto'})
    """

    def __init__(self, document: Document) -> None:
        self.source = document.source
        self.data = document.data
        self.lines = document.lines
        self.open: dict[str, str] = {}
        self.account = KeyAccount(self.data)
        self._set_by = document.set_by

    def raw(self, key: str) -> Any:
        """Return what stands at a dotted key, without any account of it; None when it is absent.

        Parameters
        ----------
        key : str

        Returns
        -------
        object or None
        """
        self.account.ask(key)
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
            self.account.use(key)
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
        if word in _TRUE or word in FALSE:
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
        for given, meant in self.account.misspelt(" ".join(filter(None, (key, problem, fix)))):
            told = f"{given} is not understood: did you mean {meant}?"
            fix = f"{fix}; {told}" if fix else told
        file = self._set_by.get(key, self.source)
        line = self.lines.get(key.split(".")[0]) if "." not in key and file == self.source else None
        return ScenarioError(
            [Issue(field=key, value=value, problem=problem, allowed=allowed, fix=fix, file=file, line=line)]
        )


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
