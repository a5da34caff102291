"""Models and clusters of a scenario, each read and built once however many cases share it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simgpu.config.cluster_block import ClusterBlock
from simgpu.config.findings import Findings
from simgpu.config.lookup import find_file, looks_like_path, suggest
from simgpu.config.magnitude import oversized
from simgpu.config.model_block import DerivedModel, InlineModel, SyntheticBlock
from simgpu.config.near import did_you_mean
from simgpu.errors import Issue, ModelError, ScenarioError, SimGPUError
from simgpu.hardware.cluster import Cluster, build_cluster
from simgpu.io.json_file import JsonFile, read_json
from simgpu.io.schedule_csv import read_schedule_csv
from simgpu.io.user_path import is_folder, is_readable, obstacle, user_path
from simgpu.io.yaml_file import FieldPath, YamlFile, read_yaml
from simgpu.parallel.schedule_check import check_schedule
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, PipelineSchedule
from simgpu.workload.architecture import Architecture

if TYPE_CHECKING:
    from simgpu.workload.synthetic import SyntheticModel

_SCHEDULE: Final = "parallel.schedule"
_FAULTS_SHOWN: Final = 3


@dataclass(slots=True, kw_only=True)
class Inputs:
    """Reads models and clusters for one scenario file.

    Parameters
    ----------
    folder : Path
        Where relative paths in the scenario start.
    files : list of Path
        Model and topology files that were read.
    """

    folder: Path
    files: list[Path] = field(default_factory=list)
    _warnings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _models: dict[str, Architecture | SyntheticModel | SimGPUError] = field(default_factory=dict)
    _clusters: dict[str, Cluster | SimGPUError] = field(default_factory=dict)

    def model(
        self, asked: str | InlineModel | DerivedModel | SyntheticBlock, findings: Findings
    ) -> Architecture | SyntheticModel | None:
        """Return the model that a scenario asks for; None, with findings, when there is none.

        Parameters
        ----------
        asked : str, InlineModel, DerivedModel or SyntheticBlock
            The ``model`` field.
        findings : Findings

        Returns
        -------
        Architecture or SyntheticModel or None
        """
        key = asked if isinstance(asked, str) else repr(asked)
        if key not in self._models:
            try:
                self._models[key] = self._read_model(asked)
            except SimGPUError as error:
                self._models[key] = error
        found = self._models[key]
        if isinstance(found, ScenarioError):
            findings.adopt(found.issues, home="model")
        elif isinstance(found, SimGPUError):
            value = asked if isinstance(asked, str) else None
            findings.adopt(_model_issues(str(found), value), home="model")
        else:
            return found
        return None

    def warnings(self, asked: str | InlineModel | DerivedModel | SyntheticBlock) -> tuple[str, ...]:
        """Return what the user should know about a model that was read.

        Parameters
        ----------
        asked : str, InlineModel, DerivedModel or SyntheticBlock
            The ``model`` field.

        Returns
        -------
        tuple of str
        """
        named = asked.base if isinstance(asked, DerivedModel) else asked
        return self._warnings.get(named, ()) if isinstance(named, str) else ()

    def _read_model(self, asked: str | InlineModel | DerivedModel | SyntheticBlock) -> Architecture | SyntheticModel:
        from simgpu.workload.bundled import bundled_config, bundled_model, bundled_models
        from simgpu.workload.inline import model_from_fields

        if isinstance(asked, SyntheticBlock):
            from simgpu.workload.synthetic import SyntheticModel

            return SyntheticModel(**asked.model_dump())
        if isinstance(asked, InlineModel):
            return _checked(model_from_fields(asked.model_dump(exclude_none=True), name="inline"))
        if isinstance(asked, DerivedModel):
            return self._derive(asked)
        path = self.folder / user_path(asked)
        if is_folder(path) and is_readable(path / "config.json"):
            path /= "config.json"
        if is_readable(path):
            return self._read_config(asked, path)
        names = bundled_models()
        if asked not in names:
            there = obstacle(path)
            if there is not None:
                problem = f"{there} without a config.json" if is_folder(path) else there
            else:
                problem = f"there is no file {path}" if looks_like_path(asked) else "is neither bundled nor a file"
            issue = Issue(
                field="model", value=asked, problem=problem, fix=did_you_mean(asked, names),
                allowed=f"the path of a Hugging Face config.json, or a bundled name: {', '.join(names)}",
            )  # fmt: skip
            raise ScenarioError([issue])
        self._note(asked, asked, bundled_config(asked))
        return bundled_model(asked)

    def _derive(self, asked: DerivedModel) -> Architecture:
        from simgpu.workload.derived import derived_model

        try:
            base = self._read_model(asked.base)
        except ScenarioError as error:
            issues = [replace(issue, field="model.base") if issue.field == "model" else issue for issue in error.issues]
            raise ScenarioError(issues) from None
        if not isinstance(base, Architecture):  # no name or path stands for a synthetic one
            raise TypeError(f"{asked.base} is no transformer")
        return _checked(derived_model(base, asked.changes))

    def _read_config(self, asked: str, path: Path) -> Architecture:
        from simgpu.workload.huggingface import model_from_huggingface

        self.files.append(path)
        file = read_json(path)
        name = path.parent.name if path.name == "config.json" and path.parent.name else path.stem
        self._note(asked, str(path), file.data)
        try:
            return _checked(model_from_huggingface(file.data, name=name))
        except ModelError as error:
            raise ScenarioError(_model_issues(str(error), None, file=file)) from None

    def _note(self, asked: str, source: str, config: Mapping[str, object]) -> None:
        """Keep what is left out of a model for its warnings."""
        from simgpu.workload.huggingface_notes import model_notes

        self._warnings[asked] = tuple(f"{source}: {note}" for note in model_notes(config))

    def cluster(self, asked: ClusterBlock, findings: Findings) -> Cluster | None:
        """Return the cluster that a scenario asks for; None, with findings, when there is none.

        Parameters
        ----------
        asked : ClusterBlock
        findings : Findings

        Returns
        -------
        Cluster or None
        """
        key = json.dumps(asked.model_dump(), sort_keys=True)
        if key not in self._clusters:
            try:
                self._clusters[key] = self._build_cluster(asked)
            except SimGPUError as error:
                self._clusters[key] = error
        found = self._clusters[key]
        if isinstance(found, ScenarioError):
            for issue in found.issues:
                known = issue.field.startswith("cluster.")
                findings.adopt([issue], home=None if known else "cluster.topology")
        elif isinstance(found, SimGPUError):
            findings.adopt([Issue(field="cluster.topology", value=asked.topology, problem=str(found))])
        else:
            return found
        return None

    def schedule(self, asked: str | None, findings: Findings) -> PipelineSchedule | None:
        """Return the pipeline schedule that a CSV holds; None for a schedule's name, or with findings.

        Parameters
        ----------
        asked : str or None
            The ``parallel.schedule`` field.
        findings : Findings

        Returns
        -------
        PipelineSchedule or None
        """
        if asked is None or asked in PIPELINE_SCHEDULES or not findings.sound(_SCHEDULE):
            return None
        path = self.folder / user_path(asked)
        if not is_readable(path):
            issue = Issue(field=_SCHEDULE, value=asked, problem=obstacle(path) or f"there is no file {path}")
            findings.adopt([issue])
            return None
        self.files.append(path)
        try:
            table = read_schedule_csv(path)
        except ScenarioError as error:
            findings.adopt(error.issues, home=_SCHEDULE)
            return None
        faults = check_schedule(table)
        if faults:
            shown = "; ".join(map(str, faults[:_FAULTS_SHOWN]))
            more = f"; and {len(faults) - _FAULTS_SHOWN} more" if len(faults) > _FAULTS_SHOWN else ""
            problem, fix = f"cannot run: {shown}{more}", f"simgpu schedule {asked} shows where"
            findings.adopt([Issue(field=_SCHEDULE, value=asked, problem=problem, fix=fix)])
            return None
        return table

    def check_topology(self, asked: str, findings: Findings) -> None:
        """Check that a topology can be read, where other fields of the cluster keep it from being built.

        Parameters
        ----------
        asked : str
            The ``topology`` field.
        findings : Findings
        """
        try:
            self._read_topology(asked)
        except ScenarioError as error:
            findings.adopt(error.issues, home="cluster.topology")

    def _read_topology(self, asked: str) -> YamlFile:
        path = find_file(asked, "topologies", folder=self.folder)
        if path is not None:
            self.files.append(path)
            return read_yaml(path)
        allowed, fix = suggest(asked, "topologies", folder=self.folder)
        absent = f"there is no file {self.folder / asked}" if looks_like_path(asked) else "is no topology"
        problem = obstacle(self.folder / user_path(asked)) or absent
        issue = Issue(field="cluster.topology", value=asked, problem=problem, allowed=allowed, fix=fix)
        raise ScenarioError([issue])

    def _build_cluster(self, asked: ClusterBlock) -> Cluster:
        file = self._read_topology(asked.topology)
        fabric = asked.fabric.model_dump(exclude_none=True) if asked.fabric is not None else None
        try:
            return build_cluster(file.data, nodes=asked.nodes, gpus=asked.gpus, fabric=fabric, source=file.source)
        except ScenarioError as error:
            raise ScenarioError([_in_topology(issue, file, fabric or {}) for issue in error.issues]) from None


def _checked(model: Architecture) -> Architecture:
    problems = oversized(model)
    if problems:
        raise ModelError("\n".join(problems))
    return model


def _model_issues(text: str, value: str | None, *, file: JsonFile | None = None) -> list[Issue]:
    """Turn a ModelError's lines, ``model NAME: problem``, into issues; a problem starts with its key."""
    problems = [re.sub(r"^model [^:]*: ", "", line) for line in text.splitlines()]
    if file is None:
        return [Issue(field="model", value=value, problem=problem) for problem in problems]
    return [
        Issue(field="", problem=problem, file=file.source, line=file.lines.get(problem.split()[0]))
        for problem in problems
    ]


def _in_topology(issue: Issue, file: YamlFile, fabric: Mapping[str, object]) -> Issue:
    """Give an issue about a topology's field the line that field has."""
    if issue.field.startswith("cluster.") or issue.line is not None:
        return issue
    if issue.field.removeprefix("fabric.") in fabric:
        return replace(issue, field=f"cluster.{issue.field}", file=None)
    path: FieldPath = tuple(
        int(part) if part.isdigit() else part for part in re.split(r"[.\[\]]+", issue.field) if part
    )
    return replace(issue, file=file.source, line=file.line(path))
