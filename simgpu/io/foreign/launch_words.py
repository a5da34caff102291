"""Launch lines found in a shell script and taken apart: launcher, its options, the script and its arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.launch_options import module_launcher, options_before_script
from simgpu.io.foreign.launch_processes import counted
from simgpu.io.foreign.launch_programs import started
from simgpu.io.foreign.shell import read_commands
from simgpu.io.foreign.shell_command import Command
from simgpu.io.foreign.shell_known import check_known
from simgpu.io.foreign.shell_quotes import check_quotes
from simgpu.io.foreign.torchtitan_overrides import started_job
from simgpu.io.foreign.unset_words import first_value, further_arguments, left_out, without_several
from simgpu.io.foreign.wrappers import unwrap

_PROGRAMS: Final = {"llamafactory-cli": "train", "tune": "run", "composer": None, "swift": None, "megatron": None}
_SWIFT: Final = ("sft", "pt", "rlhf")
"""What ms-swift trains, with Transformers as `swift` and with Megatron as `megatron`."""
_HOSTFILES: Final = ("hostfile", "H", "deepspeed_hostfile")
"""Options that are looked at where hosts are counted: other options may tell as much."""
_MULTI: Final = ("torchrun", "deepspeed", "accelerate")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchLine:
    """A launch line taken apart.

    Parameters
    ----------
    launcher : str
        ``torchrun``, ``deepspeed``, ``accelerate``, ``python``, ``llamafactory-cli``, ...
    options : mapping
        Of the launcher, dashes as underscores.
    script : str
    arguments : tuple of str
        Of the script.
    environment : mapping
    wrapped : str
        ``srun`` or ``mpirun`` where one of them starts the launcher; empty otherwise.
    wrapper : mapping
        Its options, as `simgpu.io.foreign.wrappers` names them.
    left_out : tuple of str
        Arguments that an ``if`` may add.
    unset : tuple of str
        Words that hold further arguments, which come from elsewhere.
    variables : mapping
        All that the script sets, exported or not.
    written : mapping of str to str
        Files that the script writes before, with their text.
    positional, loop, doubts, changed, ignored
        As in `Command`.
    every_gpu : bool
        Whether torchrun starts a process on each GPU of a node, of which nothing tells how many there are.
    """

    launcher: str
    options: Mapping[str, Any]
    script: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    wrapped: str = ""
    wrapper: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    positional: bool = False
    written: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    loop: str = ""
    doubts: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    every_gpu: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What its reader should say of words that are not known."""
        found = []
        if self.left_out:
            found.append(f"arguments that an if of the script decides are left out: {' '.join(self.left_out)}")
        if self.positional:
            found.append("branches of the script are those that run when it is started without arguments")
        if self.loop:
            found.append(f"the launch line stands in a loop ({self.loop}): one turn of it is simulated")
        found += [f"what {name} sets is not in the file, and is left out" for name in self.ignored]
        return (*found, *(left_out(word) for word in self.unset))


def find_launch_line(text: str, source: str, folder: Path | None = None) -> LaunchLine:
    """Return the one launch line of a text.

    Parameters
    ----------
    text : str
    source : str
        Name of the file for messages.
    folder : Path, optional
        Where it lies, with the files that it reads as scripts.

    Returns
    -------
    LaunchLine

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> find_launch_line("deepspeed --num_gpus=4 train.py --deepspeed ds.json", "run.sh").options
    {'num_gpus': '4'}
    """
    check_quotes(text, source)
    found = [line for command in read_commands(text, folder) if (line := taken_apart(command)) is not None]
    lines = list({(line.launcher, line.script, line.arguments, str(line.options)): line for line in found}.values())
    if not lines:
        raise ScenarioError([Issue(field="", problem="has no launch line that is known", file=source)])
    if len(lines) > 1:
        scripts = ", ".join(f"{line.launcher} {Path(line.script).name}" for line in lines[:4])
        problem = f"has {len(lines)} launch lines, of which one is meant: {scripts}"
        raise ScenarioError([Issue(field="", problem=problem, fix="leave one in the file", file=source)])
    line = lines[0]
    if line.launcher in ("torchrun", "tune"):
        told = line.environment, line.variables, line.wrapper
        known, every_gpu = counted(line.options, *told, source=source)
        line = replace(line, options=known, every_gpu=every_gpu)
    options = [value for name, value in line.options.items() if name not in _HOSTFILES]
    words = [str(word) for word in (*options, line.script, *line.arguments)]
    check_known(words, line.doubts, line.changed, source=source, folder=folder)
    return line


def arguments_mapping(arguments: Sequence[str]) -> dict[str, Any]:
    """Return a script's arguments by name: ``--a-b 1``, ``--a_b=1``, ``--flag``, and ``key=value`` overrides.

    Parameters
    ----------
    arguments : sequence of str

    Returns
    -------
    dict
        Several values of one option are a list; a lone flag is True; JSON is a mapping.

    Examples
    --------
    >>> arguments_mapping(["--lr-max", "-1", "--bf16", "--m", "a", "b", "train.batch=2", "-p", "2"])
    {'lr_max': '-1', 'bf16': True, 'm': ['a', 'b'], 'train': {'batch': '2'}, 'p': '2'}
    """
    result: dict[str, Any] = {}
    position = 0
    while position < len(arguments):
        word = arguments[position]
        position += 1
        option = re.fullmatch(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", word, re.DOTALL)
        if option:
            name, value = option[1].replace("-", "_"), option[2]
            values: list[str] = []
            while value is None and position < len(arguments) and not _is_option(arguments[position]):
                values.append(arguments[position])
                position += 1
            values = first_value(values)
            value = value if value is not None else True if not values else values[0] if len(values) == 1 else values
            _put(result, name, _mapping(value))
        elif "=" in word:
            name, _, value = word.lstrip("+~").partition("=")
            _put(result, name, value)
    return result


def _mapping(value: Any) -> Any:
    """Return JSON as a mapping, as HfArgumentParser takes options that are one; anything else as it is."""
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return found if isinstance(found, dict) else value


def _put(result: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    here = result
    for part in path:
        below = here.setdefault(part, {})
        if not isinstance(below, dict):
            return
        here = below
    here[last] = value


def _is_option(word: str) -> bool:
    return bool(re.match(r"--?[A-Za-z]", word)) or bool(re.match(r"[+~]?[A-Za-z_][\w.]*=", word))


def taken_apart(command: Command) -> LaunchLine | None:
    """Return a command as a launch line; None when it starts no training script that could be told.

    Parameters
    ----------
    command : Command

    Returns
    -------
    LaunchLine or None

    Examples
    --------
    >>> command = Command(words=("nohup", "python", "-m", "torch.distributed.run", "t.py", "-x"), environment={})
    >>> taken_apart(command).launcher, taken_apart(command).arguments
    ('torchrun', ('-x',))
    """
    outer = unwrap(command.words)
    words = started(outer.words)
    if not words:
        return None
    environment = {**command.environment, **outer.environment}
    job = started_job(words, environment)
    program, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if re.fullmatch(r"python[\d.]*", program):
        while rest and rest[0] in ("-u", "-O", "-B"):
            rest = rest[1:]
        if rest[:1] == ["-m"] and len(rest) > 1:
            program, rest = module_launcher(rest[1], rest[2:])
        elif rest and rest[0].endswith(".py"):
            program = "python"
        elif rest[:1] in (["-c"], ["-"]):  # a text, and no script
            return None
    if job is not None:
        program, rest = "torchrun", job[1]
    elif program in _PROGRAMS:
        verb = _PROGRAMS[program]
        swift = program in ("swift", "megatron")
        if (verb is not None and rest[:1] != [verb]) or (swift and not {*rest[:1]} & {*_SWIFT}):
            return None
        rest = rest[1:] if verb else rest
    elif program == "accelerate":
        if rest[:1] != ["launch"]:
            return None
        rest = rest[1:]
    elif program not in (*_MULTI, "python"):
        return None
    bare = program == "llamafactory-cli" and rest[:1] and rest[0].startswith("-")  # arguments, and no file of them
    options, rest = ({}, ["", *rest] if bare else rest) if program == "python" or bare else options_before_script(rest)
    if job is not None:
        options = {**job[0]}
    if not rest:
        return None
    return LaunchLine(
        launcher=program,
        options=options,
        script=rest[0],
        arguments=without_several(rest[1:]),
        environment=environment,
        wrapped=outer.program,
        wrapper=outer.options,
        variables=command.variables,
        positional=command.positional,
        written=command.written,
        left_out=command.left_out,
        unset=further_arguments(rest if any(word.endswith(".py") for word in rest[1:2]) else rest[1:]),
        loop=command.loop,
        doubts=command.doubts,
        changed=command.changed,
        ignored=command.ignored,
    )
