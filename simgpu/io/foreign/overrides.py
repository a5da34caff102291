"""Values that a command line, or another file, sets above those of a configuration file.

OmegaConf merges (hiyouga/LLaMA-Factory ``src/llamafactory/hparams/parser.py``, meta-pytorch/torchtune
``torchtune/config/_parse.py``), Axolotl writes into its mapping (axolotl-ai-cloud/axolotl
``src/axolotl/cli/config.py``), and TRL makes the file's values defaults (huggingface/trl ``trl/scripts/utils.py``):
in all of them one key goes before that key of the file, and leaves the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.document import Document, read_document
from simgpu.io.foreign.key_account import leaves

_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None, "none": None, "~": None}
_LIST: Final = re.compile(r"\[(.*)\]", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values for keys of a file.

    Parameters
    ----------
    source : str
        Who sets them, for messages; empty where nothing is to be said.
    values : mapping
        Nested as the file is.
    key : str
        Under which the file is named in the ``open`` of a reading; empty where there is none.
    kind : str
        Of whose keys the values are, where there is no file.
    beneath : sequence of (names, value)
        Defaults of a program: the first name gets the value where neither it nor one of the others is set.
    """

    source: str
    values: Mapping[str, Any]
    key: str = ""
    kind: str = ""
    beneath: Sequence[tuple[tuple[str, ...], Any]] = ()


def overridden(path: Path | None, over: Sequence[Overrides], *, once: bool = False) -> Document:
    """Read a file of one mapping, with values in the place of its own.

    Parameters
    ----------
    path : Path or None
        None where a command line has all, and there is no file.
    over : sequence of Overrides
        At least one without a file.
    once : bool
        As for `simgpu.io.foreign.document.read_document`.

    Returns
    -------
    Document

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> overridden(None, [Overrides(source="run.sh", values={"lora_rank": "8"})]).data
    {'lora_rank': '8'}
    """
    document = Document(source=over[0].source, data={}) if path is None else read_document(path, once=once)
    return laid_over(document, *over)


def laid_over(document: Document, *overrides: Overrides) -> Document:
    """Return a document with values in the place of its own.

    Parameters
    ----------
    document : Document
    overrides : Overrides
        Later ones go before earlier ones.

    Returns
    -------
    Document
        With a note for each value that differs, and who sets it.

    Examples
    --------
    >>> document = Document(source="a.yaml", data={"rank": 8, "fsdp": {"version": 1, "offload": True}})
    >>> told = laid_over(document, Overrides(source="run.sh", values={"rank": "64", "fsdp": {"version": 2}}))
    >>> told.data, told.notes[0]
    ({'rank': '64', 'fsdp': {'version': 2, 'offload': True}}, 'rank: 64 of run.sh goes before 8 of a.yaml')
    """
    for over in overrides:
        data, notes = deepcopy(document.data), list(document.notes)
        _lay(data, over, over.values, "", document.source, notes)
        for names, value in over.beneath:
            sized = names[0] in data and not isinstance(value, bool)  # null is a size too: no limit
            if data.get(names[0]) is None and not sized and not any(_is_set(data.get(name)) for name in names[1:]):
                data[names[0]] = value
                notes.append(f"{names[0]} is left out: {_shown(value)}, the program's default")
        set_by = dict.fromkeys(leaves(over.values), over.source) if over.source else {}
        document = replace(document, data=data, notes=tuple(notes), set_by={**document.set_by, **set_by})
    return document


def _lay(
    below: dict[str, Any], over: Overrides, values: Mapping[str, Any], prefix: str, source: str, notes: list[str]
) -> None:
    for name, value in values.items():
        before = below.get(name)
        if isinstance(value, Mapping) and isinstance(before, dict):
            _lay(before, over, value, f"{prefix}{name}.", source, notes)
            continue
        if over.source and before is not None and _shown(before) != _shown(value):
            notes.append(f"{prefix}{name}: {_shown(value)} of {over.source} goes before {_shown(before)} of {source}")
        below[name] = deepcopy(value)


def _is_set(value: Any) -> bool:
    return _shown(value) not in ("null", "none", "false")


def typed(value: Any) -> Any:
    """Return a word of a command line as the value that YAML would read, as far as its kind counts; numbers stay text.

    Parameters
    ----------
    value : object
        A word, several, or a mapping of them.

    Returns
    -------
    object

    Examples
    --------
    >>> typed({"bf16": "true", "targets": "[q_proj, v_proj]", "adapter": "null", "rank": "8"})
    {'bf16': True, 'targets': ['q_proj', 'v_proj'], 'adapter': None, 'rank': '8'}
    """
    if isinstance(value, Mapping):
        return {name: typed(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [typed(inner) for inner in value]
    if not isinstance(value, str):
        return value
    listed = _LIST.fullmatch(value.strip())
    if listed:
        return [typed(part.strip().strip("'\"")) for part in listed[1].split(",") if part.strip()]
    return _WORDS.get(value.strip().lower(), value)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a block of options"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
