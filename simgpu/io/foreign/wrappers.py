"""Programs that start other programs: ``srun``, ``mpirun``, ``nohup`` and the like, taken off a command."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_MPI: Final = ("mpirun", "mpiexec", "orterun", "horovodrun")
_PLAIN: Final = (
    "nohup", "time", "env", "exec", "sudo", "numactl", "setsid", "stdbuf", "uv", "run", "timeout", "nsys", "profile",
    "singularity", "apptainer", "command", "docker", "podman", "nvidia-docker", "enroot", "shifter", "kubectl", "conda",
    "micromamba", "poetry", "pixi", "screen", "taskset", "nice", "ionice", "catchsegv",
)  # fmt: skip
_STARTED: Final = (
    "torchrun", "deepspeed", "accelerate", "llamafactory-cli", "axolotl", "tune", "composer", "swift", "trl",
    "oumi", "litgpt", "megatron", "bash", "sh",
)  # fmt: skip
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "srun": {"n": "tasks", "ntasks": "tasks", "N": "nodes", "c": "cpus_per_task", "ntasks_per_node": "per_node"},
    "mpirun": {
        "np": "tasks", "n": "tasks", "c": "tasks", "N": "per_node", "npernode": "per_node", "ppn": "per_node",
        "perhost": "per_node", "H": "hosts", "host": "hosts", "map_by": "map_by",
    },
}  # fmt: skip
_CONTAINERS: Final = ("docker", "podman", "nvidia-docker")
_MOST_GPUS: Final = 64  # of a machine
_PAIRS: Final = ("mca", "genv", "env", "pmixmca")
"""Options with a name and a value behind them."""
_VARIABLES: Final = ("genv", "env")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrapped:
    """A command without what starts it.

    Parameters
    ----------
    words : tuple of str
        From the started program on.
    program : str
        ``srun`` or ``mpirun``, by whatever name; empty where neither starts it.
    options : mapping
        Of that: ``tasks``, ``per_node``, ``nodes``, ``hosts``, and others by their own names.
    environment : mapping
        Variables that are set on the way.
    """

    words: tuple[str, ...]
    program: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def unwrap(words: Sequence[str]) -> Unwrapped:
    """Take off what starts a command.

    Parameters
    ----------
    words : sequence of str

    Returns
    -------
    Unwrapped

    Examples
    --------
    >>> found = unwrap("nohup mpirun -np 16 -ppn 8 -x NCCL_ALGO=Ring --bind-to none python train.py".split())
    >>> found.words, found.program, found.options["per_node"], found.environment
    (('python', 'train.py'), 'mpirun', '8', {'NCCL_ALGO': 'Ring'})
    """
    rest = list(words)
    program, options, environment, contained = "", dict[str, str](), dict[str, str](), False
    while rest:
        name = rest[0].rsplit("/", 1)[-1]
        if "=" in rest[0] and not rest[0].startswith("-"):
            variable, _, value = rest[0].partition("=")
            environment[variable] = value
            rest = rest[1:]
            continue
        if name != "srun" and name not in (*_MPI, *_PLAIN):
            break
        end = next((at for at, word in enumerate(rest) if at and _starts(word)), len(rest))
        between, rest = rest[1:end], rest[end:]
        if name == "srun" or name in _MPI:
            program = "srun" if name == "srun" else "mpirun"
            options |= _options(between, program, environment)
        else:
            environment |= dict(word.split("=", 1) for word in between if re.match(r"[A-Za-z_]\w*=", word))
            contained = contained or name in _CONTAINERS
            environment |= _container(between) if contained else {}
    return Unwrapped(words=tuple(rest), program=program, options=options, environment=environment)


def _container(words: Sequence[str]) -> dict[str, str]:
    """Return the variables that ``docker run`` sets, with the GPUs that it shows: --gpus 2, --gpus '"device=0,1"'."""
    own = [match[1] for word in words if (match := re.fullmatch(r"(?:--env=|-e)(.+=.*)", word, re.DOTALL))]
    found = dict(text.split("=", 1) for text in own)
    for word, after in itertools.pairwise([*words, ""]):
        value = after if word == "--gpus" else word.partition("=")[2] if word.startswith("--gpus=") else ""
        value = value.strip("\"'")
        if value.isdecimal() and int(value) <= _MOST_GPUS:
            found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(int(value))))
        elif re.fullmatch(r"device=\d+(,\d+)*", value):
            found["CUDA_VISIBLE_DEVICES"] = value.removeprefix("device=")
    return found


def _starts(word: str) -> bool:
    name = word.rsplit("/", 1)[-1]
    return name in (*_STARTED, *_PLAIN, *_MPI, "srun") or bool(re.fullmatch(r"python[\d.]*|.*\.(py|sh)", name))


def _options(words: Sequence[str], program: str, environment: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    names = _NAMES[program]
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        glued = re.fullmatch(r"-([A-Za-z])(\d+)", word)
        name, equals, value = (glued[1], "=", glued[2]) if glued else word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("-"):
            continue
        values = [value] if equals else []
        while not equals and position < len(words) and not words[position].startswith("-"):
            values.append(words[position])
            position += 1
            if len(values) == (2 if name in _PAIRS else 1):
                break
        if name in _VARIABLES and len(values) == 2:
            environment[values[0]] = values[1]
        elif name == "x" and program == "mpirun" and values and "=" in values[0]:
            variable, _, text = values[0].partition("=")
            environment[variable] = text
        else:
            found[names.get(name, name)] = values[-1] if values else ""
    return found
