"""Megatron's command lines: launch scripts, and lists of arguments that somebody took out of one.

``pretrain_gpt.py --num-layers 24 ...`` behind ``torchrun``, or one argument a line. Nothing is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from simgpu.errors import ScenarioError
from simgpu.io.foreign.document import Document
from simgpu.io.foreign.launch_words import find_launch_line
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.megatron_arguments import MegatronArguments
from simgpu.io.foreign.megatron_idle import IDLE
from simgpu.io.foreign.megatron_run import megatron_settings
from simgpu.io.foreign.nccl_environment import idle_variables, nccl_settings, note_attention
from simgpu.io.foreign.ranks import Ranks, find_ranks
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.unset_words import first_value, further_arguments, left_out
from simgpu.io.foreign.visible_gpus import check_visible
from simgpu.io.text_file import read_text

KIND: Final = "megatron-args"
_TELLING: Final = (
    "--num-layers", "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--num-attention-heads",
    "--use-distributed-optimizer", "--model-parallel-size", "--yaml-cfg", "--expert-model-parallel-size",
    "--micro-batch-size",
)  # fmt: skip
_OF_2020: Final = {"batch-size": "micro-batch-size", "model-parallel-size": "tensor-model-parallel-size"}
_OTHER_FORMATS: Final = (".json", ".yaml", ".yml", ".toml", ".csv", ".md")
_ARGUMENT: Final = re.compile(r"--([A-Za-z][\w-]*)(?:[ \t]*=[ \t]*|[ \t]+|$)(.*)", re.DOTALL)
_BERT: Final = re.compile(r"bert", re.IGNORECASE)
_BERT_FILES: Final = ("data-path", "vocab-file", "tokenizer-type")


@dataclass(slots=True, kw_only=True)
class _Line:
    """Arguments by name, in the order in which they are written; the last of several counts, as in argparse."""

    values: dict[str, Any] = field(default_factory=dict)
    script: str = ""
    ranks: Ranks | None = None
    notes: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a text holds arguments of Megatron.

    Examples
    --------
    >>> recognise(Path("a.args"), "--num-layers 24\n--bf16"), recognise(Path("a.sh"), "torchrun t.py --fp16")
    (True, False)
    """
    return path.suffix.lower() not in _OTHER_FORMATS and any(re.search(rf"{word}\b", text) for word in _TELLING)


def read_megatron_args(path: Path) -> Reading:
    r"""Read a launch script or a list of arguments.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading
        Fields whose value a shell variable holds are in ``open``, with the argument as it is written.

    Raises
    ------
    ScenarioError
        When Megatron refuses the arguments, or they ask for what is not simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "gpt.args"
    ...     _ = path.write_text("--num-layers 24\n--hidden-size 2048\n--num-attention-heads 16\n--seq-length 2048\n"
    ...                         "--micro-batch-size 4\n--global-batch-size $GBS\n--bf16\n--vocab-size 50257\n"
    ...                         "--max-position-embeddings 2048\n--nproc_per_node 8")
    ...     reading = read_megatron_args(path)
    >>> reading.gpus, reading.settings["model"]["vocab"], reading.settings["training.precision"], dict(reading.open)
    (8, 50304, 'bf16', {'training.global_batch_size': '--global-batch-size $GBS'})
    """
    text = read_text(path, str(path))
    line = _launched(text, path) or _listed(text)
    data: dict[str, Any] = {f"--{name}": value for name, value in line.values.items()}
    if line.environment:
        data["env"] = dict(line.environment)
    ledger = Ledger(Document(source=path.name, data=data))
    keys = {name.replace("_", "-"): f"--{name}" for name in line.values}
    arguments = MegatronArguments(ledger, keys | _first_names(keys, ledger))
    ledger.written = line.written
    for note in line.notes:
        ledger.note(note)
    yaml = arguments.text("yaml-cfg")
    settings = megatron_settings(arguments, bert=_is_bert(arguments, line.script, path)) if yaml is None else {}
    if yaml is not None:
        ledger.open["yaml_cfg_file"] = yaml
        ledger.note(f"{arguments.key('yaml-cfg')}: Megatron then takes no other argument of the command line")
        ledger.idle(*data)
    settings |= nccl_settings(ledger, "env")
    note_attention(ledger, "env")
    counted = line.ranks if not arguments.has("nproc-per-node", "nnodes", "actor-num-nodes") else None
    gpus, nodes = _ranks(arguments) if counted is None else (counted.gpus, counted.nodes)
    settings["cluster.nodes"] = nodes
    if counted is not None and counted.open is not None:
        ledger.open["cluster.gpus"] = counted.open
    for key in line.ranks.used if line.ranks is not None else ():
        arguments.raw(key.partition(".")[2].replace("_", "-"))
    ledger.idle(*(f"--{name}" for name in IDLE), *(f"--{name.replace('-', '_')}" for name in IDLE))
    ledger.idle(*(f"env.{name}" for name in idle_variables(line.environment)), "env.CUDA_VISIBLE_DEVICES")
    return ledger.reading(KIND, settings, gpus=gpus)


def _first_names(keys: Mapping[str, str], ledger: Ledger) -> dict[str, str]:
    """Return today's names of arguments that the file writes as Megatron-LM of 2019 and 2020 did."""
    found = {}
    for old, now in _OF_2020.items():
        if old not in keys:
            continue
        if now in keys:
            ledger.refuse(keys[old], f"argument is no longer valid, use --{now} instead")  # validate_args
        found[now] = keys[old]
        ledger.note(f"{keys[old]} is Megatron-LM's name of 2020 for --{now}; releases since 2021 refuse it")
    return found


def _launched(text: str, path: Path) -> _Line | None:
    """Return the launch line of a script; None for a bare list of arguments."""
    if text.lstrip().startswith("--"):
        return None
    try:
        found = find_launch_line(text, path.name, path.parent)
    except ScenarioError as error:
        if "no launch line" in str(error):
            return None
        raise
    options = {name.replace("_", "-"): value for name, value in found.options.items()}
    values = options | dict(_named(found.arguments))
    return _Line(
        values=values,
        script=next((word for word in (found.script, *found.arguments[:1]) if word.endswith(".py")), found.script),
        environment=found.environment,
        ranks=find_ranks(found, path.name, path.parent) if found.launcher != "torchrun" else None,
        notes=found.notes,
        written=found.written,
    )


def _listed(text: str) -> _Line:
    """Return a bare list of arguments."""
    words = [
        re.sub(r"^([\"'])(.*)\1$", r"\2", word) for line in text.splitlines() for word in line.split() if word != "\\"
    ]
    notes = [left_out(word) for word in further_arguments(words)]
    return _Line(values=dict(_arguments(text.splitlines())), notes=notes)


def _named(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield arguments of a command line, whose values are all words up to the next name."""
    name, values = "", list[str]()
    for word in [*words, "--"]:
        if word.startswith("--"):
            if name:
                yield name, " ".join(first_value(values)) if values else True
            name, equals, value = word[2:].partition("=")
            values = [value] if equals else []
        else:
            values.append(word)


def _arguments(lines: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield arguments that stand one to a line, with the quotes that were cut off with the rest of the script."""
    for line in lines:
        match = _ARGUMENT.match(line.strip().rstrip("\\").strip())
        if match:
            value = match[2].strip().strip("\"'")
            rest = re.split(r"[ \t]+(?=--[A-Za-z])", value)
            words = rest[0].strip("\"'")
            if further_arguments(words.split()):
                words = " ".join(first_value(words.split()))
            yield match[1], words if rest[0] and not rest[0].startswith("--") else True
            yield from _arguments(rest[1:] if not rest[0].startswith("--") else rest)


def _is_bert(arguments: MegatronArguments, script: str, path: Path) -> bool:
    """Return whether the script is pretrain_bert.py, or the arguments are its: no argument says so."""
    if script:
        return bool(_BERT.search(Path(script).name))
    if arguments.has("bert-load", "bert-no-binary-head", "bert-embedder-type") or _BERT.search(path.stem):
        return True
    return any(_BERT.search(str(arguments.raw(name) or "")) for name in _BERT_FILES)


def _ranks(arguments: MegatronArguments) -> tuple[int | None, int | None]:
    """Return GPUs in all and nodes."""
    if arguments.has("actor-num-nodes", "actor-num-gpus-per-node"):
        nodes, each = (
            arguments.integer("actor-num-nodes", least=1),
            arguments.integer("actor-num-gpus-per-node", least=1),
        )
    else:
        field = "cluster.nodes"
        nodes = arguments.integer("nnodes", field=field, least=1)
        each = arguments.integer("nproc-per-node", field="cluster.gpus", least=1)
        if each is not None:
            check_visible(arguments.ledger, arguments.key("nproc-per-node"), each)
        if each is not None and arguments.has("nnodes") and nodes is None:
            arguments.note(f"{arguments.key('nproc-per-node')} {each}, on a number of nodes that is not in the file")
            return None, None
        if each is None:
            return None, nodes
    return (each or 1) * (nodes or 1), nodes
