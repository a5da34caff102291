"""A scenario on its way from text to types: plain data, and where each piece of it was written."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simgpu.config.batch_names import BATCH_NAMES, batch_field
from simgpu.errors import Issue
from simgpu.io.yaml_file import FieldPath, YamlFile, dotted_path

_LONGEST_VALUE: Final = 60  # characters of a value shown in a message
_TRAINING: Final = "training"
_AUTO: Final = "auto"  # left to the other fields, in DeepSpeed configurations for Hugging Face's trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a piece of a scenario was written: file and line; the line is None for ``--set`` and Python mappings."""

    file: str
    line: int | None = None


@dataclass(slots=True, kw_only=True)
class Draft:
    """Plain data of one case, with the place of each field; settings replace both.

    Parameters
    ----------
    data : dict
        Under SimGPU's own names.
    source : str
        The file as the user wrote it.
    places : dict of path to Place
    written : dict of path to str
        What the user calls a field that is not called so in ``data`` (`BATCH_NAMES`).
    """

    data: dict[str, Any]
    source: str
    places: dict[FieldPath, Place] = field(default_factory=dict)
    written: dict[FieldPath, str] = field(default_factory=dict)

    @classmethod
    def of(cls, file: YamlFile) -> Draft:
        """Start from a file that was read.

        Parameters
        ----------
        file : YamlFile

        Returns
        -------
        Draft
            Owns its data.

        Examples
        --------
        >>> Draft.of(YamlFile(source="s.yaml", data={"a": 1}, lines={("a",): 1})).place(("a", "b"))
        Place(file='s.yaml', line=1)
        >>> draft = Draft.of(YamlFile(source="s.yaml", data={"training": {"train_batch_size": 8}}, lines={}))
        >>> draft.data, draft.name(("training", "global_batch_size"))
        ({'training': {'global_batch_size': 8}}, 'train_batch_size')
        """
        places = {path: Place(file=file.source, line=line) for path, line in file.lines.items()}
        draft = cls(data=copy.deepcopy(file.data), source=file.source, places=places)
        draft._translate()
        return draft

    def copy(self) -> Draft:
        """Return a draft that can be changed without changing this one."""
        return Draft(
            data=copy.deepcopy(self.data), source=self.source, places=dict(self.places), written=dict(self.written)
        )

    def name(self, path: FieldPath) -> str:
        """Return what the user calls a field, without the blocks around it.

        Parameters
        ----------
        path : tuple of str or int

        Returns
        -------
        str
        """
        return self.written.get(path, str(path[-1]))

    def get(self, path: FieldPath) -> Any:
        """Return the value at a path, or None.

        Parameters
        ----------
        path : tuple of str or int

        Returns
        -------
        object or None
        """
        here: Any = self.data
        for part in path:
            try:
                here = here[part]
            except (KeyError, IndexError, TypeError):
                return None
        return here

    def place(self, path: FieldPath) -> Place:
        """Return where a field, or the nearest field around it, was written.

        Parameters
        ----------
        path : tuple of str or int

        Returns
        -------
        Place
        """
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return Place(file=self.source)

    def set(self, path: FieldPath, value: Any, place: Place, nested: Mapping[FieldPath, Place] | None = None) -> None:
        """Set a field and make the sections above it; None unsets it.

        Parameters
        ----------
        path : tuple of str
        value : object
        place : Place
        nested : mapping of path to Place, optional
            Places inside the value, relative to it.

        Raises
        ------
        TypeError
            When something on the way is no section; the message is that thing's dotted path.

        Examples
        --------
        >>> draft = Draft(data={}, source="s.yaml")
        >>> draft.set(("cluster", "gpus"), 4, Place(file="--set"))
        >>> draft.data
        {'cluster': {'gpus': 4}}
        """
        name = path[-1]
        if path[:-1] == (_TRAINING,):
            path = (_TRAINING, batch_field(str(name)))
        here = self.data
        for depth, part in enumerate(path[:-1], start=1):
            below = here.get(str(part))
            if below is None:
                below = here[str(part)] = {}
                self.places[path[:depth]] = place
            if not isinstance(below, dict):
                raise TypeError(dotted_path(path[:depth]))
            here = below
        for old in [old for old in self.places if old[: len(path)] == path]:
            del self.places[old]
        self.written = {old: names for old, names in self.written.items() if old[: len(path)] != path}
        if value is None:
            here.pop(str(path[-1]), None)
            return
        here[str(path[-1])] = copy.deepcopy(value)
        self.places[path] = place
        for inner, inner_place in (nested or {}).items():
            self.places[path + inner] = inner_place
        if name != path[-1]:
            self.written[path] = str(name)
        self._translate()

    def _translate(self) -> None:
        """Give the numbers of the batch SimGPU's names; of two that differ the second keeps its own, to be refused."""
        block = self.data.get(_TRAINING)
        if not isinstance(block, dict):
            return
        for name in BATCH_NAMES:
            path, own = (_TRAINING, name), (_TRAINING, BATCH_NAMES[name])
            if block.get(name) == _AUTO:
                del block[name]
            elif name in block and own[-1] not in block:
                block[own[-1]] = block.pop(name)
                self.written[own] = name
                if path in self.places:
                    self.places[own] = self.places.pop(path)
            elif name in block and block[name] == block[own[-1]]:
                del block[name]

    def issue(
        self, path: FieldPath, problem: str, *, value: Any = None, allowed: str | None = None, fix: str | None = None
    ) -> Issue:
        """Make an issue about a field, with its place.

        Parameters
        ----------
        path : tuple of str or int
        problem : str
        value : object, optional
            Shown when not None.
        allowed, fix : str, optional

        Returns
        -------
        Issue
        """
        place = self.place(path)
        return Issue(
            field=dotted_path((*path[:-1], self.name(path)) if path in self.written else path),
            problem=problem,
            value=None if value is None else show(value),
            allowed=allowed,
            fix=fix,
            file=place.file,
            line=place.line,
        )


def show(value: Any) -> str:
    """Write a value as a scenario would, shortened.

    Parameters
    ----------
    value : object

    Returns
    -------
    str

    Examples
    --------
    >>> show(True), show([1, 2]), show("bf17")
    ('true', '[1, 2]', 'bf17')
    """
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    text = " ".join(text.split()) or '""'
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
