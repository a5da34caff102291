"""Which keys of a configuration were used, which are known and without effect, and which are not understood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any, Final

from simgpu.errors import printable

_NEAR: Final = 0.88  # of difflib's ratio: a letter or two of a long name
_ALIKE: Final = 0.8  # a letter of six


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySorting:
    """Every key of a file in one of three lists.

    Parameters
    ----------
    used, idle, unknown : tuple of str
        Became settings; without effect on time and memory; not understood.
    near : mapping of str to str
        What was probably meant, by keys that are not understood.
    """

    used: tuple[str, ...]
    idle: tuple[str, ...]
    unknown: tuple[str, ...]
    near: Mapping[str, str]


class KeyAccount:
    """Keeps account of the keys of a nested mapping, by dotted names.

    Parameters
    ----------
    data : mapping

    Examples
    --------
    >>> account = KeyAccount({"zero": {"stage": 3, "stge": 3}, "log_to": "x", "speed": 9})
    >>> account.use("zero.stage")
    >>> account.know("log_*")
    >>> account.sort()
    KeySorting(used=('zero.stage',), idle=('log_to',), unknown=('zero.stge', 'speed'), near={})

    A key that a pattern covers is not known where it is almost one that the reader asks for and the file lacks.

    >>> account = KeyAccount({"log_to": "x", "num_machine": 2})
    >>> account.ask("num_machines")
    >>> account.know("log_*", "num_*")
    >>> account.sort()
    KeySorting(used=(), idle=('log_to',), unknown=('num_machine',), near={'num_machine': 'num_machines'})
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.leaves = tuple(leaves(data))
        self._used: dict[str, None] = {}
        self._asked: dict[str, None] = {}
        self._named: dict[str, None] = {}  # as idle, in full
        self._idle: dict[str, bool] = {}  # by leaf; whether it is named in full

    def ask(self, key: str) -> None:
        """Note a name that the reader looks for, whether the file has it or not."""
        self._asked.setdefault(key)

    def use(self, key: str) -> None:
        """Note a key that became a setting."""
        self._used.setdefault(key)

    def replace(self, key: str, value: Any) -> None:
        """Take the keys of a value that is written in another way in the place of its former ones.

        Parameters
        ----------
        key : str
        value : object
        """
        kept = (leaf for leaf in self.leaves if leaf != key and not leaf.startswith(f"{key}."))
        self.leaves = (*kept, *(leaves(value, f"{key}.") if isinstance(value, Mapping) else (key,)))

    def know(self, *patterns: str) -> None:
        """Note keys, and all below them, as known and without effect.

        Parameters
        ----------
        patterns : str
            Dotted keys; ``*`` stands for any text.
        """
        wild = [pattern for pattern in patterns if "*" in pattern]
        names = {pattern for pattern in patterns if "*" not in pattern}
        self._named.update(dict.fromkeys(pattern for pattern in patterns if pattern in names))
        for leaf in self.leaves:
            above = accumulate(leaf.split("."), "{}.{}".format)
            if not names.isdisjoint(above):
                self._idle[leaf] = True
            elif any(fnmatchcase(leaf, pattern) or fnmatchcase(leaf, f"{pattern}.*") for pattern in wild):
                self._idle.setdefault(leaf, False)

    def misspelt(self, text: str) -> list[tuple[str, str]]:
        """Return keys that almost have a name which the reader looked for in vain and a message speaks of.

        Parameters
        ----------
        text : str
            The message, which may write names with dashes or without their block.

        Returns
        -------
        list of (str, str)
            The key, and what was probably meant.

        Examples
        --------
        >>> account = KeyAccount({"--sequence-paralel": True})
        >>> account.ask("--sequence-parallel")
        >>> account.misspelt("needs --sequence-parallel in Megatron")
        [('--sequence-paralel', '--sequence-parallel')]
        """
        spoken = _plain(text)
        free = [leaf for leaf in self.leaves if leaf not in self._asked]
        wanted = [name for name in self._asked if name not in self.leaves and _plain(name) in spoken]
        return [(found[0], name) for name in wanted if (found := nearest(name, free))]

    def sort(self) -> KeySorting:
        """Return the lists.

        Returns
        -------
        KeySorting
        """
        given = {*self.leaves}
        asked = [name for name in self._asked if name not in given]
        free = [leaf for leaf in self.leaves if leaf in self._idle and leaf not in self._used]
        idle = [leaf for leaf in free if self._idle[leaf] or not nearest(leaf, asked)]
        known = {*self._used, *idle}
        unknown = [leaf for leaf in self.leaves if not any(leaf == k or leaf.startswith(f"{k}.") for k in known)]
        names = [*asked, *(name for name in self._named if name not in given)] if unknown else []
        beside = (
            [name for name in self._asked if name in given] if unknown else []
        )  # the right name may stand there too
        strange = [key for key in unknown if key not in self._asked]  # others are right, and without use here
        near = {key: found[0] for key in strange if (found := nearest(key, names) or nearest(key, beside))}
        return KeySorting(
            used=tuple(self._used), idle=tuple(printable(leaf) for leaf in idle), unknown=tuple(unknown), near=near
        )


def leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of values that are set.

    Examples
    --------
    >>> list(leaves({"a": {"b": 1, "c": None}, "d": []}))
    ['a.b', 'd']
    """
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}"


def nearest(key: str, names: Sequence[str]) -> list[str]:
    """Return the name that is nearest, where the last parts are alike too: a long block in common says nothing.

    Parameters
    ----------
    key : str
        Dotted.
    names : sequence of str

    Returns
    -------
    list of str
        None or one.

    Examples
    --------
    >>> nearest("training.sed", ["training.seed", "training.steps"]), nearest("model.sed", ["training.seed"])
    (['training.seed'], [])
    """
    last = key.rpartition(".")[2]
    found = get_close_matches(key, names, n=1, cutoff=_NEAR)
    return [name for name in found if SequenceMatcher(None, name.rpartition(".")[2], last).ratio() > _ALIKE]


def _plain(text: str) -> str:
    """Return a text with names as Python writes them; of a dotted name alone, its last part."""
    last = text.rpartition(".")[2] if " " not in text else text
    return last.lstrip("-").replace("-", "_").lower()
