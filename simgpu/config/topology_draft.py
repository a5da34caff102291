"""A topology description in the making: devices and cables one by one, written out as families and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Port = tuple[str, int]
"""A device: its family and its number there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """A link between two devices.

    Parameters
    ----------
    a, b : tuple of str and int
    type : str
        A name of ``simgpu/data/links.csv``.
    extra : tuple of (str, int or float)
        Further fields of the link: ``count``, ``lanes``, ``bandwidth_gb_per_s``.
    """

    a: Port
    b: Port
    type: str
    extra: tuple[tuple[str, Any], ...] = ()


@dataclass(slots=True)
class Draft:
    """Devices and cables collected so far.

    Examples
    --------
    >>> draft = Draft()
    >>> gpus = [draft.add("gpu", kind="gpu", model="A40") for _ in range(2)]
    >>> cpu = draft.add("cpu", kind="cpu")
    >>> for gpu in gpus:
    ...     draft.link(gpu, cpu, "PCIe 4.0 x16")
    >>> draft.description("pair")["links"]
    [{'from': 'gpu', 'to': 'cpu', 'type': 'PCIe 4.0 x16'}]
    """

    families: dict[str, dict[str, Any]] = field(default_factory=dict)
    cables: list[Cable] = field(default_factory=list)

    def add(self, family: str, **fields: str | bool) -> Port:
        """Add one more device of a family.

        Parameters
        ----------
        family : str
        **fields
            ``kind`` and, of GPUs and NICs, ``model`` or ``type``.

        Returns
        -------
        tuple of str and int
        """
        entry = self.families.setdefault(family, {**fields, "count": 0})
        entry["count"] += 1
        return family, entry["count"] - 1

    def link(self, a: Port, b: Port, type_: str, **extra: Any) -> None:
        """Join two devices; ``None`` and a count of one are left out.

        Parameters
        ----------
        a, b : tuple of str and int
        type_ : str
        **extra
        """
        kept = tuple((key, value) for key, value in extra.items() if value is not None and (key, value) != ("count", 1))
        self.cables.append(Cable(a=a, b=b, type=type_, extra=kept))

    def description(self, name: str, text: str = "", fabric: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Content of a topology file.

        Parameters
        ----------
        name, text : str
            Name and one line of description.
        fabric : mapping, optional

        Returns
        -------
        dict
        """
        result: dict[str, Any] = {"name": name}
        if text:
            result["description"] = text
        result["devices"] = {
            family: {key: value for key, value in entry.items() if (key, value) != ("count", 1)}
            for family, entry in self.families.items()
        }
        result["links"] = [self._entry(run) for run in self._runs()]
        if fabric:
            result["fabric"] = dict(fabric)
        return result

    def _runs(self) -> list[list[Cable]]:
        """Cables in order, cut into stretches that one line of the file says."""
        runs: list[list[Cable]] = []
        for cable in self.cables:
            if runs and _continues(runs[-1], cable):
                runs[-1].append(cable)
            else:
                runs.append([cable])
        return runs

    def _entry(self, run: list[Cable]) -> dict[str, Any]:
        first, last = run[0], run[-1]
        return {
            "from": self._selection(first.a, last.a),
            "to": self._selection(first.b, last.b),
            "type": first.type,
            **dict(first.extra),
        }

    def _selection(self, first: Port, last: Port) -> str:
        family = first[0]
        if first[1] == 0 and last[1] == self.families[family]["count"] - 1:
            return family
        return f"{family} {first[1]}" if first == last else f"{family} {first[1]}-{last[1]}"


def _continues(run: list[Cable], cable: Cable) -> bool:
    """Whether a cable goes on as the run does: both ends one further, or one end while the other stays."""
    last = run[-1]
    if (cable.a[0], cable.b[0], cable.type, cable.extra) != (last.a[0], last.b[0], last.type, last.extra):
        return False
    step = (cable.a[1] - last.a[1], cable.b[1] - last.b[1])
    if step not in ((1, 1), (1, 0), (0, 1)):
        return False
    return len(run) == 1 or step == (last.a[1] - run[-2].a[1], last.b[1] - run[-2].b[1])
