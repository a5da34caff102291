"""From the configuration files of one run, of whatever programs, to one scenario."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from simgpu.config.draft import Draft, Place
from simgpu.config.findings import Findings
from simgpu.config.imported_run_adapters import settle_targets
from simgpu.config.imported_run_defaults import assume, assume_unused
from simgpu.config.imported_run_files import with_named_files
from simgpu.config.imported_run_formats import formats
from simgpu.config.imported_run_layout import join_replicas, leave_out_defaults, share_out
from simgpu.config.imported_run_machines import GPUS, choose_machines
from simgpu.config.imported_run_merge import COMMAND_LINE, Merged, merge
from simgpu.config.imported_run_misspelt import with_misspelt
from simgpu.config.imported_run_model import choose_model, model_type
from simgpu.config.imported_run_open import check_open
from simgpu.config.imported_run_ports import settle_ports
from simgpu.config.imported_run_program import training_program
from simgpu.config.imported_run_recompute import settle_recompute
from simgpu.config.imported_run_sizes import fill_automatic, freeze_layers, settle_formats, take_dropout
from simgpu.config.imported_run_start import settle_start
from simgpu.config.inputs import Inputs
from simgpu.config.load import load_scenario
from simgpu.config.lookup import looks_like_path
from simgpu.config.settings import parse_overrides
from simgpu.config.structure import check_structure
from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign import host_list
from simgpu.io.foreign.launch_line import PLAIN
from simgpu.io.foreign.litgpt_model import listed_model
from simgpu.io.foreign.machine_files import NETWORK_LOG
from simgpu.io.foreign.reading import Reading
from simgpu.workload.architecture import Architecture

_NO_TRAINING: Final = {"training.precision", PLAIN}
"""Keys of ``open`` that say nothing of a training."""
_GENERATION: Final = "software: "  # how notes begin that say which kernels a file's options mean
_ORDER: Final = (
    "name", "framework", "model", "cluster", "training", "parallel", "ddp", "zero", "fsdp", "distributed_optimizer",
    "network", "software", "costs", "perturb",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAnswers:
    """What the user says beside the files.

    Parameters
    ----------
    model : str or None
        Bundled name, or path of a config.json.
    topology : str or None
        Bundled name, or path of a topology file.
    gpus : int or None
    settings : tuple of str
        ``a.b=value`` texts, which go before every file.
    """

    model: str | None = None
    topology: str | None = None
    gpus: int | None = None
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """A scenario, and how it came about.

    Parameters
    ----------
    data : dict
        What the scenario file holds; paths are relative to its folder.
    readings : tuple of Reading
        One per file.
    assumed : tuple of str
        What no file says, and what was taken.
    notes : tuple of str
        What differs from the files, and how they were laid over each other.
    """

    data: dict[str, Any]
    readings: tuple[Reading, ...]
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = field(default=())


def import_run(paths: Sequence[Path], answers: RunAnswers, *, folder: Path | None = None) -> ImportedRun:
    r"""Read files about one run and make a scenario of them that can be played.

    Parameters
    ----------
    paths : sequence of Path
    answers : RunAnswers
    folder : Path, optional
        Where the scenario file will lie; the working directory by default.

    Returns
    -------
    ImportedRun

    Raises
    ------
    ScenarioError
        When a file is refused, files contradict each other, something decisive is missing, or the scenario cannot be
        laid out.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     path = Path(place) / "a.yml"
    ...     _ = path.write_text("base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 512\nbf16: true\n"
    ...                         "micro_batch_size: 2\noptimizer: adamw_torch")
    ...     imported = import_run([path], RunAnswers(topology="dgx-a100", gpus=4))
    >>> imported.data["training"]["micro_batch_size"], imported.data["parallel"]["data_parallel"]
    (2, 'ddp')
    """
    readings = with_named_files(paths)
    try:
        return _run(paths, readings, answers, folder)
    except ScenarioError as error:
        raise with_misspelt(error, readings) from None


def _run(paths: Sequence[Path], readings: list[Reading], answers: RunAnswers, folder: Path | None) -> ImportedRun:
    """Lay readings over each other, and choose what they leave open."""
    _check_training(readings, model_given=answers.model is not None)
    command_line = _command_line(answers.settings)
    decided = [_without(reading, command_line.settings) for reading in readings]
    merged = merge([*decided, command_line] if command_line.settings else decided)
    readings = settle_start(merged, readings, gpus_given=answers.gpus)
    check_open(merged, readings, model_given=answers.model is not None)
    base = paths[0].parent
    answer = answers.model
    listed = next((reading for reading in readings if "listed_models" in reading.open), None)
    if listed is not None:  # --model picks one of them
        merged.put("model", listed_model(Path(listed.open["listed_models"]), answer), listed.source)
        answer = None
    named = merged.get("model")
    model, note = choose_model(named, merged.sources.get("model", ""), answer, base)
    model = _changed(model, merged)
    merged.notes += [note] if note else []
    merged.put("model", model, merged.sources.get("model", ""))
    topology = answers.topology or merged.get("cluster.topology")
    if topology is None:
        fix = "add --topology NAME, such as dgx-a100, or the path of a topology file"
        left = [f", and {r.source} leaves GPUs to {r.open[GPUS]}" for r in readings if GPUS in r.open]
        problem = f"is missing: no file says which machines{left[0] if left else ''}"
        raise ScenarioError([Issue(field="topology", problem=problem, fix=fix)])
    architecture = _architecture(model)
    take_dropout(merged, model)
    settle_recompute(merged, readings)
    freeze_layers(merged, readings, architecture)
    assumed = assume(merged, readings, architecture)
    settle_targets(merged, model_type(answer or named, model), assumed)
    fill_automatic(merged, readings, architecture, assumed)
    gpus, nodes = choose_machines(merged, readings, answers.gpus, str(topology), assumed)
    settle_ports(merged, readings, str(topology), nodes)
    merged.put("network.logs", [log for reading in readings for log in reading.logs] or None, "")
    share_out(merged, readings, gpus)
    join_replicas(merged, gpus=gpus, nodes=nodes)
    settle_formats(merged, readings, gpus)
    assume_unused(merged, readings, assumed)
    formats(merged, readings)
    leave_out_defaults(merged)
    sources = dict(merged.sources)
    cluster: dict[str, Any] = {"topology": str(topology), "nodes": nodes, "gpus": gpus}
    data = _nested({**{f"cluster.{key}": value for key, value in cluster.items()}, **merged.values})
    _check(data, sources)
    data = _relative(data, folder or Path())
    title = "Imported from " + ", ".join(dict.fromkeys(reading.source for reading in readings))
    data = {"name": title, **data}
    program = training_program(readings)
    if program is not None:
        data.setdefault("framework", program)
    notes = dict.fromkeys([*(n for reading in readings for n in reading.notes), *merged.notes])
    if any(name.partition(".")[0] == "software" for name in command_line.settings):
        notes = {note: None for note in notes if not note.startswith(_GENERATION)}
    return ImportedRun(
        data={block: data[block] for block in (*_ORDER, *sorted(set(data) - set(_ORDER))) if block in data},
        readings=tuple(readings),
        assumed=tuple(dict.fromkeys(assumed)),
        notes=tuple(notes),
        unknown=tuple(f"{reading.source}: {reading.not_understood}" for reading in readings if reading.unknown),
    )


def _check_training(readings: Sequence[Reading], *, model_given: bool) -> None:
    """Refuse files that show no training: those of a machine alone, and a script that plain Python starts."""
    if not model_given and all(reading.kind in (NETWORK_LOG, host_list.KIND) for reading in readings):
        problem = "says something of machines, and nothing of a run"
        fix = "give the configuration of the run as another FILE, or name the model with --model"
        if any(reading.logs for reading in readings):
            fix += "; in a scenario that is there, name it in network: {logs: [...]}"
        raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=readings[0].source)])
    said = [
        reading
        for reading in readings
        if reading.settings or reading.gpus or reading.logs or reading.open.keys() - _NO_TRAINING
    ]
    if not said:
        problem = "starts a script, and no argument of it is known to be about training"
        fix = "give the configuration that it reads as another FILE"
        raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=readings[0].source)])


def _without(reading: Reading, decided: Mapping[str, Any]) -> Reading:
    """Leave out what the command line decides: files need not agree on it."""
    return replace(reading, settings={name: value for name, value in reading.settings.items() if name not in decided})


def _command_line(texts: Sequence[str]) -> Reading:
    settings = {".".join(setting.path): setting.value for setting in parse_overrides(texts)}
    return Reading(source=COMMAND_LINE, kind=COMMAND_LINE, settings=settings)


def _changed(model: Any, merged: Merged) -> Any:
    """Put single dimensions that a file changes into the model."""
    changes = {name.partition(".")[2]: value for name, value in merged.values.items() if name.startswith("model.")}
    for name in changes:
        merged.put(f"model.{name}", None, "")
    if not changes:
        return model
    return {**model, **changes} if isinstance(model, Mapping) else {"base": model, **changes}


def _architecture(model: Any) -> Architecture | None:
    """Build the model, as far as defaults need to know it."""
    rest = {"cluster": {"topology": "dgx-a100"}, "training": {"micro_batch_size": 1, "sequence_length": 1}}
    findings = Findings(draft=Draft(data={**rest, "model": model}, source="--model"))
    scenario = check_structure(findings)
    built = (
        Inputs(folder=Path()).model(scenario.model, findings) if scenario is not None and not findings.issues else None
    )
    if findings.issues:
        raise ScenarioError(
            [replace(issue, file=None if issue.file == "--model" else issue.file) for issue in findings.issues]
        )
    return built if isinstance(built, Architecture) else None


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    draft = Draft(data={}, source="imported")
    for name in sorted(values, key=lambda name: name.count(".")):
        try:
            draft.set(tuple(name.split(".")), values[name], Place(file="imported"))
        except TypeError as error:
            problem = f"cannot be set beside {error}"
            raise ScenarioError(
                [Issue(field=name, value=str(values[name]), problem=problem, file=COMMAND_LINE)]
            ) from None
    software = draft.data.get("software")
    if isinstance(software, dict) and list(software) == ["preset"]:
        draft.data["software"] = software["preset"]
    cluster = draft.data["cluster"]
    if cluster["nodes"] == 1:
        del cluster["nodes"]
    return draft.data


def _check(data: dict[str, Any], sources: Mapping[str, str]) -> None:
    """Load the scenario; what is wrong with it is said of the file that brought it in."""
    try:
        load_scenario(data)
    except ScenarioError as error:
        raise ScenarioError(
            [
                replace(issue, file=sources.get(issue.field) or None, line=None) if issue.file == "scenario" else issue
                for issue in error.issues
            ]
        ) from None


def _relative(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write paths relative to the folder of the scenario."""

    def moved(name: Any) -> Any:
        if not isinstance(name, str) or not looks_like_path(name):
            return name
        path = Path(name).absolute()
        return os.path.relpath(path, folder.absolute()) if path.exists() else name

    model, cluster, network = data["model"], data["cluster"], data.get("network")
    if isinstance(network, dict) and "logs" in network:
        data = {**data, "network": {**network, "logs": [moved(log) for log in network["logs"]]}}
    if isinstance(model, dict) and "base" in model:
        model = {**model, "base": moved(model["base"])}
    return {**data, "model": moved(model), "cluster": {**cluster, "topology": moved(cluster["topology"])}}
