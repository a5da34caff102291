"""From a scenario to the files that launch it, checked by reading them back."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simgpu.config.case import Case
from simgpu.config.exported_fields import differences, step_fields
from simgpu.config.exported_source import ExportSource, export_source
from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.config.load import load_cases
from simgpu.errors import Issue, ScenarioError
from simgpu.io.json_file import read_json
from simgpu.io.launch.formats import FORMATS, PROGRAMS
from simgpu.io.launch.job import Files, Job, cannot
from simgpu.io.launch.script import LAUNCH
from simgpu.io.topology_yaml import flow_text
from simgpu.io.user_path import is_folder, user_path
from simgpu.workload.architecture import Architecture

_KIND: Final = "parallel.data_parallel"
_OF_THE_SIMULATION: Final = {
    ("costs",): "measured costs of ops belong to the simulation",
    ("perturb",): "disturbances belong to the simulation",
    ("price_per_gpu_hour",): "the price belongs to the simulation",
    ("training", "train_tokens"): "the length of the whole training is not launched here",
    ("training", "moe_imbalance"): "how tokens spread over experts is the router's doing",
    ("cluster", "fabric"): "the network is there already",
    ("network", "nccl", "version"): "NCCL's version is that which PyTorch was built with",
}
"""Fields that no launch file has, and that take no part in the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    """Launch files.

    Parameters
    ----------
    files : mapping of file name to text
    notes : tuple of str
        What the job does not know, or does in another way than the simulation.
    back : str
        The command that makes a scenario of the files again.
    """

    files: Files
    notes: tuple[str, ...]
    back: str


def export_run(scenario: str, case: Case, form: str, overrides: Sequence[str] = ()) -> ExportedRun:
    """Write the files that launch a case, and make sure that they say the same.

    Parameters
    ----------
    scenario : str
        File, or the name of a bundled one.
    case : Case
        One of its cases.
    form : str
        A name of `simgpu.io.launch.formats.FORMATS`.
    overrides : sequence of str
        ``a.b=value`` settings that the case was loaded with.

    Returns
    -------
    ExportedRun

    Raises
    ------
    ScenarioError
        Naming the fields that the format cannot say.

    Examples
    --------
    >>> from simgpu.config.load import load_cases
    >>> run = export_run("four_vs_eight", load_cases("four_vs_eight")[0], "accelerate")
    >>> list(run.files), run.back
    (['launch.sh', 'accelerate.yaml', 'config.json'], 'simgpu import launch.sh --topology dgx-a100 --out scenario.yaml')
    """
    source = export_source(scenario, case.name, overrides)
    job = _job(case, source)
    settings, notes = _of_the_simulation(source, case)
    files = FORMATS[form](job, ())
    wanted = step_fields(case)
    found = _read_back(files, source, settings)
    software = differences(_only(wanted, "software."), _only(found, "software."))
    if software:
        own = source.get("software") or case.software.name
        settings = (*settings, f"software={flow_text(own)}")
        notes = (*notes, _kernels(case, form, found["software.name"]))
        found = _read_back(files, source, settings)
    _compare(wanted, found, form)
    back = _command(source, settings)
    head = (
        f"{source.title}, written by SimGPU for {PROGRAMS[form]}.",
        *(f"- {note}" for note in notes),
        f"Back to a scenario: {back}",
    )
    return ExportedRun(files=FORMATS[form](job, head), notes=notes, back=back)


def _job(case: Case, source: ExportSource) -> Job:
    if not isinstance(case.model, Architecture):
        problem = "is synthetic, stages of given durations, and no model that could be trained"
        raise ScenarioError([Issue(field="model", problem=problem)])
    if case.training.lora is not None:
        problem = "is in no launch file: the training script adds adapters, and Transformers' run_clm.py has none"
        fix = "add --set training.lora=null, which writes all but the adapters, and let your own script add them"
        raise ScenarioError([Issue(field="training.lora", problem=problem, fix=fix)])
    return Job(
        title=source.title,
        nodes=case.cluster.nodes,
        gpus=case.cluster.world_size,
        model=case.model,
        model_config=_config(source.get("model")),
        training=case.training,
        strategy=case.strategy,
        software=case.software,
        nccl=case.nccl,
    )


def _config(model: Any) -> Mapping[str, Any] | None:
    """Return the ``config.json`` that a scenario names, a file's or a bundled one."""
    from simgpu.workload.bundled import bundled_config, bundled_models

    if not isinstance(model, str):
        return None
    if model in bundled_models():
        return bundled_config(model)
    path = user_path(model)
    return read_json(path / "config.json" if is_folder(path) else path).data


def _of_the_simulation(source: ExportSource, case: Case) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return settings that go beside the files, and what is said of each."""
    settings, notes = [], []
    for path, why in _OF_THE_SIMULATION.items():
        value = source.get(*path)
        if value is not None:
            settings.append(f"{'.'.join(path)}={flow_text(value)}")
            notes.append(f"{'.'.join(path)}: {why}")
    if case.network_free:
        settings.append("network=free")
        notes.append("network: free: the job will have a network that takes time")
    return tuple(settings), tuple(notes)


def _read_back(files: Files, source: ExportSource, settings: tuple[str, ...]) -> dict[str, Any]:
    """Import the files as ``simgpu import`` does, and return the fields that decide their step."""
    answers = RunAnswers(topology=str(source.get("cluster", "topology")), settings=settings)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        imported = import_run([folder / LAUNCH], answers, folder=Path())
        return step_fields(load_cases(imported.data)[0])


def _only(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name.startswith(prefix)}


def _kernels(case: Case, form: str, name: str) -> str:
    return (
        f"software: the step was simulated with the kernels of {case.software.name}; those that {PROGRAMS[form]} runs "
        f"with these files are simulated with --set software={name}"
    )


def _compare(wanted: Mapping[str, Any], found: Mapping[str, Any], form: str) -> None:
    """Refuse files that say something else than the case."""
    issues: list[Issue] = []
    other = differences(wanted, found)
    for name, (ours, theirs) in other.items():
        if name != _KIND and _KIND in other:
            continue  # options of one kind mean nothing to another
        problem = f"cannot be said to {PROGRAMS[form]}, whose job would have {_shown(theirs)}"
        fix = f"set {name}: {_shown(theirs)}, or use another --format"
        issues += cannot(name, _shown(ours), problem, fix=fix).issues
    if issues:
        raise ScenarioError(issues)


def _shown(value: Any) -> str:
    if value is None or value == () or value == "":
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _command(source: ExportSource, settings: Sequence[str]) -> str:
    words = ["simgpu", "import", LAUNCH, "--topology", str(source.get("cluster", "topology"))]
    words += [word for setting in settings for word in ("--set", setting)]
    return shlex.join([*words, "--out", "scenario.yaml"])
