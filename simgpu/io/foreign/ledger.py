"""A configuration as its reader goes through it: typed values, and which keys were understood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simgpu.errors import printable
from simgpu.io.foreign.document import Document
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.typed_values import AUTO, TypedValues


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
