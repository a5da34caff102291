"""Commands in texts of others: ``bash -c TEXT``, ``ssh HOST TEXT``, ``sbatch <<EOF``, scripts that a script wrote."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from simgpu.io.foreign.shell_files import Files, plain_name
from simgpu.io.foreign.shell_start import JOB, job_files, job_variables
from simgpu.io.foreign.shell_state import State
from simgpu.io.foreign.wrappers import starts_others

_SHELLS: Final = ("bash", "sh", "zsh", "dash")
_QUEUES: Final = ("sbatch", "qsub", "bsub")
_REMOTE: Final = ("ssh", "pdsh", "clush")
_CONTAINERS: Final = ("docker", "podman", "nvidia-docker")
"""Programs that hand on no variables but those they are told."""
_OF_JOB: Final = ("SLURM_", "PBS_", "LSB_", JOB)
_SSH_VALUES: Final = re.compile(r"-[bcDEeFIiJLlmOopQRSWw]|-R|-f|-x")
_SET: Final = re.compile(r"(?:-e|--env)=?([A-Za-z_]\w*=.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A text that another shell reads.

    Parameters
    ----------
    text : str
    outer : tuple of str
        What starts the shell here, such as ``srun -N 2``; empty where it runs elsewhere.
    arguments : list of str, optional
    inherits : bool
        Whether it finds the exported variables.
    variables : mapping of str to str
        Those that it finds besides.
    """

    text: str
    outer: tuple[str, ...] = ()
    arguments: list[str] | None = None
    inherits: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)


def inner_text(words: Sequence[str], files: Files, fed: str | None) -> Inner | None:
    """Return the text of commands that a command runs; None where it has none.

    Parameters
    ----------
    words : sequence of str
    files : Files
        That the script has written.
    fed : str or None
        What the command reads, where that is known.

    Returns
    -------
    Inner or None

    Examples
    --------
    >>> files = Files(folder=None)
    >>> found = inner_text(["srun", "-N", "2", "bash", "-lc", "torchrun t.py"], files, None)
    >>> found.outer, found.text, found.variables["SLURM_NNODES"]
    (('srun', '-N', '2'), 'torchrun t.py', '2')
    >>> inner_text(["ssh", "-p", "22", "host", "cd x;", "ls"], files, None).text
    'cd x; ls'
    """
    words = list(words)
    program = words[0].rsplit("/", 1)[-1] if words else ""
    if program in _QUEUES:
        return _queued(words, files, fed)
    if program == "tmux":
        text = next((word for word in words[1:] if " " in word.strip()), None)
        return None if text is None else Inner(text=text)
    if program in _REMOTE:
        at = _behind_options(words)
        at += program == "ssh"
        inner = inner_text(words[at:], files, fed) if words[at:] else None
        text = fed if not words[at:] else " ".join(words[at:]) if inner is None else inner.text
        return None if text is None else Inner(text=text, inherits=False, arguments=inner.arguments if inner else None)
    for at, word in enumerate(words):
        shell = word.rsplit("/", 1)[-1] in _SHELLS
        runs = not at or (word.endswith(".sh") and starts_others(program))
        text = _script(word, files) if runs and not shell else None
        if not shell and text is None:
            continue
        found = _of_shell(words[at:], files, fed) if shell else (text or "", words[at + 1 :])
        if found is not None:
            contained = program in _CONTAINERS
            own = _own_variables(words[:at]) if contained else _slurm(words[:at])
            return Inner(
                text=found[0], outer=tuple(words[:at]), arguments=found[1], inherits=not contained, variables=own
            )
    return None


def _script(word: str, files: Files) -> str | None:
    """Return the text of a file that is run by its name: one that the script wrote, or a shell script beside it."""
    return files.text(word) if word.endswith(".sh") else files.written.get(plain_name(word))


def _of_shell(words: list[str], files: Files, fed: str | None) -> tuple[str, list[str] | None] | None:
    """Return what ``bash -c TEXT``, ``bash FILE`` or ``bash <<EOF`` runs, with its arguments."""
    at = 1
    while at < len(words) and words[at][:1] in ("-", "+"):
        if re.fullmatch(r"-[A-Za-z]*c", words[at]):
            return (words[at + 1], words[at + 3 :] or None) if at + 1 < len(words) else None
        if words[at] == "-s":
            return None if fed is None else (fed, words[at + 1 :])
        at += 1 + bool(re.fullmatch(r"[-+][A-Za-z]*o", words[at]))
    if at >= len(words):
        return None if fed is None else (fed, None)
    text = files.text(words[at])
    return None if text is None else (text, words[at + 1 :])


def _queued(words: list[str], files: Files, fed: str | None) -> Inner | None:
    """Return the job that a command puts into a queue."""
    wrapped = [after if word == "--wrap" else word[7:] for word, after in zip(words, [*words[1:], ""], strict=True)
               if re.match(r"--wrap(=|$)", word)]  # fmt: skip
    name = next((word for word in words[1:] if word[:1] != "-" and files.text(word) is not None), None)
    text = wrapped[0] if wrapped else fed if name is None else files.text(name)
    if text is None:
        return None
    own = {**{key: values[0] for key, values in job_variables(text).items()}, **_slurm(words)}
    arguments = [] if name is None else words[words.index(name) + 1 :]
    return Inner(text=text, arguments=arguments or None, variables=own)


def _behind_options(words: Sequence[str]) -> int:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 1 + bool(_SSH_VALUES.fullmatch(words[at]))
    return at


def _slurm(words: Sequence[str]) -> dict[str, str]:
    """Return the variables that ``srun`` and ``sbatch`` set by their options."""
    if not words or words[0].rsplit("/", 1)[-1] not in ("srun", "sbatch"):
        return {}
    pairs = zip(words, [*words[1:], ""], strict=True)
    lines = [
        f"#SBATCH {word}" if "=" in word else f"#SBATCH {word} {after}" for word, after in pairs if word[:1] == "-"
    ]
    return {name: values[0] for name, values in job_variables("\n".join(lines)).items()}


def _own_variables(words: Sequence[str]) -> dict[str, str]:
    """Return what ``docker run -e A=1`` sets."""
    glued = [found[1] for word in words if (found := _SET.fullmatch(word))]
    pairs = itertools.pairwise(words)
    apart = [after for word, after in pairs if word in ("-e", "--env") and re.match(r"[A-Za-z_]\w*=", after)]
    return dict(one.split("=", 1) for one in [*glued, *apart])


def child(state: State, inner: Inner, own: Mapping[str, str]) -> State:
    """Return what the other shell finds.

    Parameters
    ----------
    state : State
        Of the shell that starts it.
    inner : Inner
    own : mapping of str to str
        Assignments in front of the command.

    Returns
    -------
    State

    Examples
    --------
    >>> from simgpu.io.foreign.shell import read_commands
    >>> read_commands("A=1; export B=2; bash -c 'run $A $B'")[0].words
    ('run', '$A', '2')
    """
    found = state.copied()
    exported = found.variables.exported if inner.inherits else {}
    for name in [name for name in found.variables.values if name not in exported]:
        if not (inner.inherits and name.startswith(_OF_JOB)):  # which the scheduler exports
            found.variables.forget(name)
    for name, value in {**(own if inner.inherits else {}), **inner.variables}.items():
        found.variables.set(name, [value])
        if not name.startswith(JOB):
            found.variables.exported.setdefault(name)
    found.variables.arguments = inner.arguments
    found.files.written |= job_files(inner.text)
    return found
