"""A configuration as its reader goes through it: typed values, and which keys were understood."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from simgpu.errors import printable
from simgpu.io.foreign.document import Document
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.typed_values import AUTO, FALSE, TypedValues

_OFF: Final[tuple[Any, ...]] = (None, False, 0, [], {})


class Ledger(TypedValues):
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
        super().__init__(document)
        self.notes: list[str] = list(document.notes)
        self.matched: dict[str, Any] = {}
        self.written: Mapping[str, str] = {}

    def idle(self, *patterns: str) -> None:
        """Note keys, and all below them, as known and without effect on time and memory.

        Parameters
        ----------
        patterns : str
            Dotted keys; ``*`` stands for any text.
        """
        self.account.know(*patterns)

    def put(self, key: str, value: Any) -> None:
        """Set a value in the place of the file's, as another way to write the same; its keys are those accounted for.

        Parameters
        ----------
        key : str
            Dotted; all above it is there.
        value : object

        Examples
        --------
        >>> ledger = Ledger(Document(source="x", data={"args": {"plan": "{}"}}))
        >>> ledger.put("args.plan", {"speed": 9})
        >>> ledger.integer("args.plan.speed"), ledger.reading("demo", {}).used
        (9, ('args.plan.speed',))
        """
        above, _, last = key.rpartition(".")
        block = self.raw(above) if above else self.data
        block[last] = value
        self.account.replace(key, value)

    def unfold(self, key: str) -> None:
        """Take a mapping that is written as JSON in a text, as Transformers does, for the mapping; others stay."""
        value = self.raw(key)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            with suppress(ValueError, RecursionError):
                self.put(key, json.loads(value))

    def told(self, words: Mapping[str, str], at: str = "") -> None:
        """Note of each switch that is on what is simulated in its place; those that are off have no effect.

        Parameters
        ----------
        words : mapping of str to str
            By the switch's name.
        at : str
            In front of every name.

        Examples
        --------
        >>> ledger = Ledger(Document(source="x", data={"slow": {"by": 2}, "odd": "false"}))
        >>> ledger.told({"slow": "is quick here", "odd": "is even here"})
        >>> ledger.notes, ledger.reading("demo", {}).used, ledger.reading("demo", {}).idle
        (['slow: is quick here'], ('slow.by',), ('odd',))
        """
        for name, text in words.items():
            key = f"{at}{name}"
            value = self.raw(key)
            if value not in _OFF and str(value).lower() not in FALSE:
                for leaf in self.account.leaves:
                    if leaf == key or leaf.startswith(f"{key}."):
                        self.account.use(leaf)
                self.note(f"{name}: {text}")
            self.idle(key)

    def note(self, text: str) -> None:
        """Keep something that a reader of the scenario should know."""
        text = printable(text)
        if text not in self.notes:
            self.notes.append(text)

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
        keys = self.account.sort()
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
