"""Options of torchtitan on a command line, which go before those of its TOML file.

pytorch/torchtitan torchtitan/config/manager.py (ConfigManager; "CLI args > TOML file > defaults") and run_train.sh.
Forms are those of tyro: ``--a.b v``, ``--a.b=v``, ``--a.b`` and ``--a.no-b`` for switches, dashes as underscores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from simgpu.io.foreign.document import Document
from simgpu.io.foreign.key_account import leaves, nearest
from simgpu.io.foreign.overrides import Overrides, laid_over
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.torchtitan import KIND, read_job

_MODULES: Final = ("torchtitan.train", "run_train.sh", "run_llama_train.sh")
"""Its program, and the scripts of its repository that start it: today's, and that of 2024."""
_SCRIPTS: Final = _MODULES[1:]
_TABLES: Final = (
    "job", "profiling", "metrics", "model", "optimizer", "lr_scheduler", "training", "parallelism", "checkpoint",
    "activation_checkpoint", "compile", "float8", "mx", "quantize", "comm", "memory_estimation", "fault_tolerance",
    "experimental", "validation", "debug",
)  # fmt: skip
_OPTION: Final = re.compile(rf"--({'|'.join(_TABLES)})\.\w")
_DEFAULTS: Final = {"NGPU": "8", "CONFIG_FILE": "./torchtitan/models/llama3/train_configs/debug_model.toml"}
"""Of the variables of run_train.sh."""


def started_job(words: Sequence[str], environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]] | None:
    """Return what ``run_train.sh`` starts: torchrun's options, and the script with its arguments.

    Parameters
    ----------
    words : sequence of str
    environment : mapping

    Returns
    -------
    (dict, list of str) or None
        None for another command, and for a script of that name which shows nothing of torchtitan.

    Examples
    --------
    >>> started_job(["./run_train.sh", "--training.steps", "9"], {"CONFIG_FILE": "a.toml", "NGPU": "4"})
    ({'nproc_per_node': '4'}, ['run_train.sh', '--job.config_file', 'a.toml', '--training.steps', '9'])
    >>> started_job(["bash", "run_train.sh", "--lr", "1"], {}) is None
    True
    """
    rest = list(words[1:] if words and words[0].rsplit("/", 1)[-1] in ("bash", "sh") else words)
    name = rest[0].rsplit("/", 1)[-1] if rest else ""
    telling = environment.get("CONFIG_FILE", "").endswith(".toml") or any(_OPTION.match(word) for word in rest)
    if name not in _SCRIPTS or not telling:
        return None
    gpus, config = (environment.get(variable, default) for variable, default in _DEFAULTS.items())
    return {"nproc_per_node": gpus}, [name, "--job.config_file", config, *rest[1:]]


def job_options(script: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return torchtitan's options among the arguments of a script.

    Parameters
    ----------
    script : str
        Or the module that Python runs.
    arguments : mapping
        Nested by the dots of their names.

    Returns
    -------
    dict or None
        Tables of options, without the name of the file; None for another program.

    Examples
    --------
    >>> job_options("torchtitan.train", {"compile": {"no_enable": True}, "training": {"seq_len": "64"}})
    {'compile': {'enable': False}, 'training': {'seq_len': '64'}}
    >>> job_options("train.py", {"bf16": True}) is None
    True
    """
    job = arguments.get("job")
    if script.rsplit("/", 1)[-1] not in _MODULES and not (isinstance(job, Mapping) and "config_file" in job):
        return None
    found = {name: _switched(table) for name, table in arguments.items() if isinstance(table, Mapping)}
    found.get("job", {}).pop("config_file", None)
    return {name: table for name, table in found.items() if table}


def _switched(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with those that tyro's ``no-`` switches off, and without those that are set to None."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found[name] = _switched(value)
        elif value is True and name.startswith("no_"):
            found[name.removeprefix("no_")] = False
        else:
            found[name] = None if value == "None" else value
    return found


def with_overrides(readings: Sequence[Reading]) -> list[Reading]:
    """Read torchtitan's job again with what the command line sets; without a file, with that alone.

    Parameters
    ----------
    readings : sequence of Reading
        Of the files of a run. Options that the job does not know are then said of the command line.

    Returns
    -------
    list of Reading

    Raises
    ------
    ScenarioError
        When a value is no value of its option.

    Examples
    --------
    >>> line = Reading(source="run.sh", kind="launch-line", settings={},
    ...                options={"training": {"seq_len": "4096", "sed": "1"}})
    >>> job = read_job(Document(source="j.toml", data={"training": {"seq_len": 2048}}))
    >>> line, job = with_overrides([line, job])
    >>> job.settings["training.sequence_length"], line.not_understood
    (4096, '--training.sed (did you mean --training.seed?)')
    """
    at = next((at for at, reading in enumerate(readings) if reading.kind == "launch-line" and reading.options), None)
    if at is None:
        return list(readings)
    line = readings[at]
    job = next((reading for reading in readings if reading.kind == KIND), None)
    given = dict.fromkeys(leaves(line.options))
    alone = Document(source=line.source, data={})
    file = alone if job is None else Document(source=job.source, data=dict(job.options))
    read = read_job(laid_over(file, Overrides(source=line.source, values=line.options)))
    own = {key for key in read.unknown if key in given}
    of_file = [key for key in leaves(file.data) if key not in given]
    near = {key: (nearest(key, of_file) or [read.near.get(key, "")])[0] for key in own}
    unheard = tuple(f"{key}: " for key in read.idle)  # what has no effect is not worth a note
    read_alone = replace(
        read,
        notes=tuple(note for note in read.notes if not note.startswith(unheard)),
        idle=tuple(key for key in read.idle if key not in given),
        unknown=tuple(key for key in read.unknown if key not in own),
    )
    told = replace(
        line,
        idle=(*line.idle, *(f"--{key}" for key in read.idle if key in given)),
        unknown=(*line.unknown, *(f"--{key}" for key in read.unknown if key in own)),
        near={**line.near, **{f"--{key}": f"--{meant}" for key, meant in near.items() if meant}},
    )
    others = [read_alone if reading is job else told if reading is line else reading for reading in readings]
    return others if job is not None else [*others, read_alone]
