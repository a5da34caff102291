"""Launch lines found in a shell script and taken apart: launcher, its options, the script and its arguments."""

from __future__ import annotations

import itertools
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
from simgpu.io.foreign.shell_files import plain_name
from simgpu.io.foreign.shell_known import check_known
from simgpu.io.foreign.shell_quotes import check_quotes
from simgpu.io.foreign.torchtitan_overrides import started_job
from simgpu.io.foreign.unset_words import further_arguments, left_out, without_several
from simgpu.io.foreign.wrappers import PYTHON, unwrap

_PROGRAMS: Final = {"llamafactory-cli": "train", "tune": "run", "composer": None, "swift": None, "megatron": None}
_SWIFT: Final = ("sft", "pt", "rlhf")
"""What ms-swift trains, with Transformers as `swift` and with Megatron as `megatron`."""
_HOSTFILES: Final = ("hostfile", "H", "deepspeed_hostfile")
"""Options that are looked at where hosts are counted: other options may tell as much."""
_OF_A_NODE: Final = (
    "node_rank", "machine_rank", "master_addr", "master_port", "main_process_ip", "main_process_port", "log_dir",
)  # fmt: skip
_CONFIGURES: Final = re.compile(r"\.(?:json|ya?ml|toml)$")
_DASHES: Final = "\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"
_TRAINS: Final = re.compile(
    r"train|tune|sft|^main|^run|launch|batch|learning|^--lr|epoch|deepspeed|config", re.IGNORECASE
)
"""In the names of scripts that train, and of their arguments."""
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
    every_gpu : str
        The option by which torchrun starts a process on each GPU of a node, where nothing tells how many there are.
    helpers : tuple of str
        Scripts that plain Python starts beside it, which train nothing.
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
    every_gpu: str = ""
    helpers: tuple[str, ...] = ()

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
        found += [f"python {name} stands beside the launch line, and is left out" for name in self.helpers]
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
    lines = list({_of_any_node(line): line for line in reversed(found)}.values())[::-1]
    helpers = [line for line in lines if _is_helper(line)] if len(lines) > 1 else []
    lines = [line for line in lines if line not in helpers] or lines
    if not lines:
        raise ScenarioError([Issue(field="", problem="has no launch line that is known", file=source)])
    if len(lines) > 1:
        scripts = ", ".join(f"{line.launcher} {Path(line.script).name}" for line in lines[:4])
        problem = f"has {len(lines)} launch lines, of which one is meant: {scripts}"
        raise ScenarioError([Issue(field="", problem=problem, fix="leave one in the file", file=source)])
    line = lines[0]
    if line.launcher in ("torchrun", "tune"):
        line = replace(line, options={**_of_environment(line.environment), **line.options})
        told = line.environment, line.variables, line.wrapper
        known, every_gpu = counted(line.options, *told, source=source)
        line = replace(line, options=known, every_gpu=every_gpu)
    options = [value for name, value in line.options.items() if name not in _HOSTFILES]
    line = replace(line, helpers=tuple(dict.fromkeys(one.script for one in helpers if one is not lines[0])))
    line = replace(line, changed={**line.changed, **_made(found, helpers, line)})
    words = [str(word) for word in (*options, line.script, *line.arguments)]
    odd = next((word for word in (*line.options, *words) if word.startswith(tuple(_DASHES))), None)
    if odd is not None:
        problem, fix = (
            "begins with a dash of print, by which no program knows an option",
            f"write --{odd.lstrip(_DASHES)}",
        )
        raise ScenarioError([Issue(field="", value=odd, problem=problem, fix=fix, file=source)])
    check_known(words, line.doubts, line.changed, source=source, folder=folder)
    return line


def _made(found: Sequence[LaunchLine], helpers: Sequence[LaunchLine], line: LaunchLine) -> dict[str, str]:
    """Return files of a line that a helper before it names, and so may write, with the reason."""
    words = (*line.arguments, *map(str, line.options.values()))
    ours = {plain_name(part) for word in words for part in word.split("=")}
    made: dict[str, str] = {}
    for one in itertools.takewhile(lambda other: other in helpers, found):
        said = " ".join(("python", one.script, *one.arguments))
        named = {plain_name(part) for word in one.arguments for part in word.split("=") if _CONFIGURES.search(part)}
        made |= dict.fromkeys(named & ours, f"may be written by `{said}` of the script, which is not run")
    return made


def _of_any_node(line: LaunchLine) -> tuple[str, ...]:
    """Return what tells a line from another: not what each node of one job has for itself."""
    options = {name: value for name, value in line.options.items() if name not in _OF_A_NODE}
    return line.launcher, line.script, *line.arguments, str(options)


def _of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what torchrun takes from PET_NNODES and PET_NPROC_PER_NODE: torch/distributed/argparse_util.py."""
    return {
        name: environment[key] for name in ("nnodes", "nproc_per_node") if (key := f"PET_{name.upper()}") in environment
    }


def _is_helper(line: LaunchLine) -> bool:
    """Whether a line is one of plain Python with no sign of a training: it makes a file, downloads or converts."""
    words = (line.script.rsplit("/", 1)[-1], *(word for word in line.arguments if word.startswith("-")))
    return line.launcher == "python" and not line.wrapped and not any(map(_TRAINS.search, words))


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
    program, rest = words[0].rsplit("/", 1)[-1].removesuffix("_jsc"), words[1:]  # Jülich's torchrun_jsc
    if PYTHON.fullmatch(program):
        while rest and re.fullmatch(r"-[uOBEsSIqvbdP]+|-[WX].*", rest[0]):
            rest = rest[2 if rest[0] in ("-W", "-X") else 1 :]
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
