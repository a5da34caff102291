"""Files of an imported run, with those that they name themselves."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.fsdp_options import FILE, read_fsdp_file
from simgpu.io.foreign.fsdp_options import KIND as FSDP
from simgpu.io.foreign.kinds import kind_of, read_foreign, with_fsdp_options
from simgpu.io.foreign.reading import Reading
from simgpu.io.user_path import is_readable, user_path

_ABOVE: Final = 4
"""Folders above a file among which the root of its repository is looked for: examples name files from there."""
_NAMED: Final = {
    "deepspeed_config_file": ("deepspeed",),
    "accelerate_config_file": ("accelerate",),
    "job_config_file": ("torchtitan",),
    "yaml_cfg_file": ("megatron-yaml-cfg",),
    "config_file": ("llamafactory", "axolotl", "torchtune"),
    FILE: (FSDP,),
    "script_config_file": ("trainer", "olmo", "llm-foundry", "nanotron"),
}
"""Which kind of file a reading may name, by its key in ``open``."""
_COMPLETE: Final = ("megatron-args",)
"""Kinds that say all that decides without the file which they name: a script of theirs may make it with ``sed``."""
_OWN: Final = "script_config_file"
"""Key of the file of a script of the user's own: one of no kind that is read may be of any form."""
_STAGE: Final = ("parallel.data_parallel", "ddp.bucket_cap_mb")


def with_named_files(paths: Sequence[Path]) -> list[Reading]:
    """Read files, and what they name where that was not given and lies beside them.

    Parameters
    ----------
    paths : sequence of Path

    Returns
    -------
    list of Reading

    Raises
    ------
    ScenarioError
        When one cannot be read, is given twice, or names a file that is not there.
    """
    same = [path for index, path in enumerate(paths) if path.absolute() in [p.absolute() for p in paths[:index]]]
    if same:
        raise ScenarioError([Issue(field="", problem="is given twice", fix="name it once", file=str(same[0]))])
    readings = [read_foreign(path) for path in paths]
    homes = [path.parent for path in paths]
    at = 0
    while at < len(readings):  # a file that is named may name another
        for found, home in _missing(readings[at], homes[at], readings):
            readings.append(found)
            homes.append(home)
        at += 1
    readings = _with_options(readings, paths)
    return _agreed([_without_own(reading, readings) for reading in readings])


def _with_options(readings: Sequence[Reading], paths: Sequence[Path]) -> list[Reading]:
    """Give FSDP's options to the arguments that name their file; options that none names are refused."""
    options = next((reading for reading in readings if reading.kind == FSDP), None)
    if options is None:
        return list(readings)
    if not any(FILE in reading.open for reading in readings):
        problem = "has options of FSDP, and nothing names it"
        fix = "add --fsdp full_shard --fsdp_config FILE to the arguments of Trainer that it is for"
        raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=options.source)])
    given = [*paths, *[None] * (len(readings) - len(paths))]
    return [
        with_fsdp_options(path, reading, options.options) if path is not None and FILE in reading.open else reading
        for path, reading in zip(given, readings, strict=True)
    ]


def _without_own(reading: Reading, readings: Sequence[Reading]) -> Reading:
    """Note a file of a script's own that is not there, or of no kind that is read."""
    named = reading.open.get(_OWN)
    if named is None or any(other.kind in _NAMED[_OWN] for other in readings):
        return reading
    return replace(reading, notes=(*reading.notes, f"{named} was not given or is of no known kind, and is left out"))


def _missing(reading: Reading, home: Path, readings: Sequence[Reading]) -> Iterator[tuple[Reading, Path]]:
    for key, kinds in _NAMED.items():
        named = reading.open.get(key)
        if named is None or any(other.kind in kinds for other in readings):
            continue
        path = next((place for place in _places(named, home) if is_readable(place)), None)
        text = next((text for name, text in reading.written.items() if Path(name).name == Path(named).name), None)
        if text is not None:
            yield _written(named, text, read_fsdp_file if key == FILE else read_foreign), home
        elif path is not None and key == FILE:
            yield read_fsdp_file(path), path.parent
        elif path is not None and (key != _OWN or kind_of(path) in kinds):
            yield read_foreign(path), path.parent
        elif reading.kind not in _COMPLETE and key != _OWN:
            problem, fix = "is named and was not given", "give it as another FILE"
            raise ScenarioError([Issue(field=key, value=named, problem=problem, fix=fix, file=reading.source)])


def _written(named: str, text: str, read: Callable[[Path], Reading]) -> Reading:
    """Read a file that a script writes before it starts the job."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(named).name
        path.write_text(text, encoding="utf-8")
        return read(path)


def _agreed(readings: Sequence[Reading]) -> list[Reading]:
    """Let DeepSpeed's file say the stage of ZeRO beside Megatron's arguments, or note that it was not given."""
    at = next((at for at, reading in enumerate(readings) if reading.kind == "deepspeed"), None)
    found = list(readings)
    for place, reading in enumerate(readings):
        named = reading.open.get("deepspeed_config_file") if reading.kind in _COMPLETE else None
        if named is None:
            continue
        if at is None:
            note = f"{named} was not given: what it says beside the stage of ZeRO is left out"
            found[place] = replace(reading, notes=(*reading.notes, note))
            continue
        said, stage = (one.settings.get(_STAGE[0]) for one in (reading, readings[at]))
        if (said, stage) == ("zero1", "ddp"):  # Megatron-DeepSpeed in bf16, whose optimizer shares out its states
            notes = tuple(note for note in found[at].notes if "without ZeRO" not in note and "ZeRO stage 0" not in note)
            found[at] = replace(_without_stage(found[at]), notes=notes)
            continue
        note = f"{_STAGE[0]}: {stage} of {readings[at].source}, where {reading.source} has {said}"
        found[place] = replace(
            _without_stage(reading), notes=(*reading.notes, *([note] if said not in (None, stage) else []))
        )
    return found


def _without_stage(reading: Reading) -> Reading:
    settings = {field: value for field, value in reading.settings.items() if field not in _STAGE}
    return replace(
        reading, settings=settings, open={key: text for key, text in reading.open.items() if key not in _STAGE}
    )


def _places(named: str, home: Path) -> tuple[Path, ...]:
    """Return where a named file may lie: from the folder of the file that names it, or one above, and from here."""
    path = user_path(named)
    above = list(home.absolute().parents)[:_ABOVE]
    return home / path, home / path.name, *(folder / path for folder in above), path
