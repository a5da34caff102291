"""Arguments of launch lines that belong to the configuration file which the line names, and go before its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from simgpu.config.imported_run_file import RunFile
from simgpu.io.foreign.key_account import leaves, nearest
from simgpu.io.foreign.kinds import TAKE_OVERRIDES
from simgpu.io.foreign.launch_line import read_launch_line
from simgpu.io.foreign.overrides import Overrides
from simgpu.io.foreign.reading import Reading

_LAUNCHERS: Final = ("accelerate_config_file",)
"""Files of a launcher: its script's arguments are not theirs."""
_BY_TRAINER: Final = ("trainer", "llamafactory", "axolotl", "ms-swift")
"""Kinds whose programs hand everything to Trainer."""
_OPTIONS: Final = {
    "training.gradient_accumulation": "gradient_accumulation_steps", "training.precision": "mixed_precision",
}  # fmt: skip
"""Options of Accelerate's launcher that Trainer sets anew."""


def lay_arguments(
    files: Sequence[RunFile],
    kinds: Mapping[str, Sequence[str]],
    named_by: Callable[[RunFile, str], RunFile | None],
) -> list[RunFile]:
    r"""Put the arguments of launch lines above the files that these name.

    Parameters
    ----------
    files : sequence of RunFile
    kinds : mapping of str to names
        What a file may be, by the key of ``open`` that names it.
    named_by : callable
        Returns the file that another one names under a key; None where it is not there.

    Returns
    -------
    list of RunFile
        With those that lines name. Arguments of a program that needs no file are one of its kind by themselves.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [Path(folder) / name for name in ("run.sh", "sft.yaml")]
    ...     _ = paths[0].write_text("llamafactory-cli train sft.yaml lora_rank=64")
    ...     _ = paths[1].write_text("finetuning_type: lora\nlora_target: q_proj")
    ...     files = lay_arguments([RunFile.given(path) for path in paths], {"config_file": ("llamafactory",)}, print)
    >>> files[1].reading.settings["training.lora"]
    {'rank': 64, 'targets': ['q_proj']}
    """
    found = list(files)
    for line in files:
        path = line.path
        for over in line.reading.over if path is not None else ():
            target = _target(line, over, found, kinds, named_by)
            if target is None or target.reading.kind not in TAKE_OVERRIDES:
                continue
            target.homes = tuple(dict.fromkeys((*target.homes, *line.homes)))
            if over.values or over.beneath:
                target.lay(over)
            if path is not None and over.key not in _LAUNCHERS:
                alone = read_launch_line(path, own_arguments=False)
                line.reading = _with_steps(_with_keys(alone, target, over), target.reading)
    return found


def _target(
    line: RunFile,
    over: Overrides,
    found: list[RunFile],
    kinds: Mapping[str, Sequence[str]],
    named_by: Callable[[RunFile, str], RunFile | None],
) -> RunFile | None:
    """Return the file that a line names; arguments of a program that needs none are one by themselves."""
    if not over.key:
        source = line.reading.source
        target: RunFile | None = RunFile(reading=Reading(source=source, kind=over.kind, settings={}), homes=line.homes)
    else:
        target = _fitting(Path(line.reading.open[over.key]).name, found, kinds[over.key])
        if target is not None:
            return target
        target = named_by(line, over.key)
    found += [] if target is None else [target]
    return target


def _fitting(name: str, files: Sequence[RunFile], kinds: Sequence[str]) -> RunFile | None:
    """Return the file of a name among those of some kinds; the only one of them, where it has another name."""
    fitting = [file for file in files if file.reading.kind in kinds]
    named = [file for file in fitting if file.path is not None and file.path.name == name]
    return next(iter([*named, *fitting]), None)


def _with_keys(line: Reading, target: RunFile, over: Overrides) -> Reading:
    """Say of the line, and not of the file, which of its keys are not understood."""
    given = {*leaves(over.values)}
    own = tuple(key for key in target.reading.unknown if key in given)
    near = {key: found[0] for key in own if (found := nearest(key, target.reading.used))}
    near |= {key: meant for key, meant in target.reading.near.items() if key in own}
    told = replace(line, unknown=(*line.unknown, *own), near={**line.near, **near})
    target.reading = replace(target.reading, unknown=tuple(key for key in target.reading.unknown if key not in own))
    return told


def _with_steps(line: Reading, file: Reading) -> Reading:
    """Take what a file says to Trainer before what Accelerate's launcher says: Trainer gives Accelerator its own."""
    settings, notes = dict(line.settings), list(line.notes)
    for field, option in _OPTIONS.items():
        ours, theirs = file.settings.get(field), settings.get(field)
        if file.kind in _BY_TRAINER and None not in (ours, theirs) and ours != "tf32":
            del settings[field]
            if ours != theirs:
                notes.append(f"--{option} {theirs} of the launcher contradicts {file.source} ({ours}): {ours} holds")
    return replace(line, settings=settings, notes=tuple(notes))
