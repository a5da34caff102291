"""Programs that start other programs: ``srun``, ``mpirun``, ``jsrun``, ``nohup`` and the like, taken off a command.

Options: the manuals of Slurm's ``srun``, Open MPI's, MPICH's and HPE PALS' ``mpirun`` and ``mpiexec``, IBM's ``jsrun``,
LLNL's ``lrun`` and Flux' ``flux run``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_STARTERS: Final[Mapping[str, str]] = {
    "srun": "srun", "jsrun": "jsrun", "lrun": "lrun", "flux": "flux",
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "horovodrun", "aprun", "ibrun"), "mpirun"),
}  # fmt: skip
"""Programs that start several processes, with the one whose options they have."""
_PLAIN: Final = (
    "nohup", "time", "env", "exec", "sudo", "numactl", "setsid", "stdbuf", "uv", "run", "timeout", "nsys", "profile",
    "singularity", "apptainer", "command", "docker", "podman", "nvidia-docker", "enroot", "shifter", "kubectl", "conda",
    "micromamba", "poetry", "pixi", "screen", "taskset", "nice", "ionice", "catchsegv", "ray", "blaunch",
)  # fmt: skip
_STARTED: Final = (
    "torchrun", "torchrun_jsc", "deepspeed", "accelerate", "llamafactory-cli", "axolotl", "tune", "composer", "swift",
    "trl", "oumi", "litgpt", "megatron", "bash", "sh",
)  # fmt: skip
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "srun": {"n": "tasks", "ntasks": "tasks", "N": "nodes", "c": "cpus_per_task", "ntasks_per_node": "per_node",
             "tasks_per_node": "per_node"},
    "mpirun": {
        "np": "tasks", "n": "tasks", "c": "tasks", "N": "per_node", "npernode": "per_node", "ppn": "per_node",
        "perhost": "per_node", "H": "hosts", "host": "hosts", "map_by": "map_by",
    },
    "jsrun": {
        "p": "tasks", "np": "tasks", "n": "sets", "nrs": "sets", "r": "sets_per_node", "rs_per_host": "sets_per_node",
        "a": "tasks_per_set", "tasks_per_rs": "tasks_per_set", "g": "gpus_per_set", "gpu_per_rs": "gpus_per_set",
    },
    "flux": {"n": "tasks", "ntasks": "tasks", "N": "nodes", "tasks_per_node": "per_node"},
    "lrun": {"n": "tasks", "p": "tasks", "N": "nodes", "T": "per_node"},
}  # fmt: skip
PYTHON: Final = re.compile(r"(?:[\w-]+-)?python[\d.]*(?:-[\w-]+)?")
"""Python, also as containers call it: ``conda-python-distributed``."""
_CONTAINERS: Final = ("docker", "podman", "nvidia-docker")
_MOST_GPUS: Final = 64  # of a machine
_PAIRS: Final = ("mca", "genv", "env", "pmixmca")
"""Options with a name and a value behind them."""
_VARIABLES: Final = ("genv", "env")
_SET: Final[Mapping[str, Sequence[str]]] = {"mpirun": ("x", "env"), "jsrun": ("E", "env"), "lrun": ("E", "env")}
"""Options with ``NAME=VALUE`` behind them."""
_DASHED: Final = ("smpiargs", "M")
"""Options whose value may begin with a dash: ``--smpiargs -gpu``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrapped:
    """A command without what starts it.

    Parameters
    ----------
    words : tuple of str
        From the started program on.
    program : str
        ``srun``, ``mpirun``, ``jsrun``, ``lrun`` or ``flux``, by whatever name; empty where none of them starts it.
    options : mapping
        Of that: ``tasks``, ``per_node``, ``nodes``, ``hosts``, of jsrun's resource sets ``sets``, ``sets_per_node``,
        ``tasks_per_set`` and ``gpus_per_set``, and others by their own names.
    environment : mapping
        Variables that are set on the way.
    """

    words: tuple[str, ...]
    program: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def starts_others(program: str) -> bool:
    """Return whether a program starts the one behind its options.

    Examples
    --------
    >>> starts_others("/usr/bin/srun"), starts_others("apptainer"), starts_others("chmod")
    (True, True, False)
    """
    return _name(program) in (*_STARTERS, *_PLAIN)


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
        name = _name(rest[0])
        if "=" in rest[0] and not rest[0].startswith("-"):
            variable, _, value = rest[0].partition("=")
            environment[variable] = value
            rest = rest[1:]
            continue
        script = (
            program != "" and name.endswith(".sh") and len(rest) > 1 and _starts(rest[1])
        )  # which sets a rank's GPU
        if name not in (*_STARTERS, *_PLAIN) and not script:
            break
        if name == "flux" and rest[1:2] == ["run"]:
            rest = [name, *rest[2:]]
        end = next((at for at, word in enumerate(rest) if at and _starts(word)), len(rest))
        between, rest = rest[1:end], rest[end:]
        if name in _STARTERS:
            program = _STARTERS[name]
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


def _name(word: str) -> str:
    """Return the name of a program; of MPI's without the kind: ``mpiexec.hydra``."""
    name = word.rsplit("/", 1)[-1]
    return name.partition(".")[0] if name.startswith("mpi") and not name.endswith((".py", ".sh")) else name


def _starts(word: str) -> bool:
    name = _name(word)
    return name in (*_STARTED, *_PLAIN, *_STARTERS) or bool(
        PYTHON.fullmatch(name) or re.fullmatch(r".*\.(py|sh)", name)
    )


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
        while not equals and position < len(words) and (name in _DASHED or not words[position].startswith("-")):
            values.append(words[position])
            position += 1
            if len(values) == (2 if name in _PAIRS else 1):
                break
        if name in _VARIABLES and len(values) == 2:
            environment[values[0]] = values[1]
        elif name in _SET.get(program, ()) and values and "=" in values[0]:
            variable, _, text = values[0].partition("=")
            environment[variable] = text
        else:
            found[names.get(name, name)] = values[-1] if values else ""
    return found
