"""Files of an imported run, with those that they name themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from simgpu.config.imported_run_arguments import lay_arguments
from simgpu.config.imported_run_file import RunFile
from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.fsdp_options import FILE, read_fsdp_file
from simgpu.io.foreign.fsdp_options import KIND as FSDP
from simgpu.io.foreign.kinds import TAKE_OVERRIDES, kind_of, read_foreign
from simgpu.io.foreign.overrides import Overrides
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.torchtitan_overrides import with_overrides
from simgpu.io.user_path import is_readable, user_path

_ABOVE: Final = 4
"""Folders above a file among which the root of its repository is looked for: examples name files from there."""
_NAMED: Final = {
    "deepspeed_config_file": ("deepspeed",),
    "accelerate_config_file": ("accelerate",),
    "job_config_file": ("torchtitan",),
    "yaml_cfg_file": ("megatron-yaml-cfg",),
    "config_file": ("litgpt", "llamafactory", "axolotl", "ms-swift", "oumi", "torchtune", "trainer"),
    FILE: (FSDP,),
    "script_config_file": ("trainer", "olmo", "llm-foundry", "nanotron", "picotron"),
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
    files = lay_arguments([RunFile.given(path) for path in paths], _NAMED, _named_by)
    for file in files:
        if file.error is not None:
            raise file.error
    at = 0
    while at < len(files):  # one that is named may name another
        files += _missing(files[at], files)
        at += 1
    _give_options(files)
    readings = with_overrides([file.reading for file in files])
    return _agreed([_without_own(reading, readings) for reading in readings])


def _give_options(files: Sequence[RunFile]) -> None:
    """Give FSDP's options to the arguments that name their file; those alone that none names are refused."""
    options = next((file.reading for file in files if file.reading.kind == FSDP), None)
    if options is None:
        return
    naming = [file for file in files if FILE in file.reading.open]
    if not naming and not options.settings:
        problem = "has options of FSDP, and nothing names it"
        fix = "add --fsdp full_shard --fsdp_config FILE to the arguments of Trainer that it is for"
        raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=options.source)])
    for file in naming:
        if file.reading.kind in TAKE_OVERRIDES:
            file.lay(Overrides(source="", values={"fsdp_config": options.options}))


def _without_own(reading: Reading, readings: Sequence[Reading]) -> Reading:
    """Note a file of a script's own that is not there, or of no kind that is read."""
    named = reading.open.get(_OWN)
    if named is None or any(other.kind in _NAMED[_OWN] for other in readings):
        return reading
    return replace(reading, notes=(*reading.notes, f"{named} was not given or is of no known kind, and is left out"))


def _missing(file: RunFile, files: Sequence[RunFile]) -> list[RunFile]:
    """Return the files that one names and that were not given."""
    found: list[RunFile] = []
    for key, kinds in _NAMED.items():
        named = file.reading.open.get(key)
        if named is None or any(other.reading.kind in kinds for other in files):
            continue
        beside = _named_by(file, key)
        if beside is not None and beside.error is not None:
            raise beside.error
        if beside is not None:
            found.append(beside)
        elif file.reading.kind not in _COMPLETE and key != _OWN:
            problem, fix = "is named and was not given", "give it as another FILE"
            raise ScenarioError([Issue(field=key, value=named, problem=problem, fix=fix, file=file.reading.source)])
    return found


def _named_by(file: RunFile, key: str) -> RunFile | None:
    """Return the file that one names under a key, where it lies beside it or a script writes it."""
    named, read = file.reading.open[key], read_fsdp_file if key == FILE else read_foreign
    text = next((text for name, text in file.reading.written.items() if Path(name).name == Path(named).name), None)
    if text is not None:
        return RunFile.written(named, text, file, read)
    path = next((place for home in file.homes for place in _places(named, home) if is_readable(place)), None)
    if path is None or (key == _OWN and kind_of(path) not in _NAMED[_OWN]):
        return None
    return RunFile(reading=read(path), homes=(path.parent,), path=path) if key == FILE else RunFile.given(path)


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
