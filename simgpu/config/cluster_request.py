"""A cluster asked for by itself, without a scenario around it: by the options of a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from simgpu.config.draft import Draft
from simgpu.config.findings import Findings
from simgpu.config.inputs import Inputs
from simgpu.config.link_disorder import disorder_links
from simgpu.config.structure import check_structure
from simgpu.errors import Issue, ScenarioError
from simgpu.hardware.cluster import Cluster

_OPTIONS: Final = "options"  # stands for a file where issues say which one they are about
_REST: Final = {"model": {"stages": 1, "forward_ns": 1, "backward_ns": 1}, "training": {"micro_batch_size": 1}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRequest:
    """Fields of a scenario's ``cluster`` block.

    Parameters
    ----------
    topology : str
        Bundled name, or path of a topology file.
    nodes : int
    gpus : int or None
        In all; every GPU when None.
    fabric : mapping
        Fields of the fabric to replace.
    links : mapping
        What is left of links, by their names, as in a scenario's ``perturb.links``.
    """

    topology: str
    nodes: int = 1
    gpus: int | None = None
    fabric: Mapping[str, Any] | None = None
    links: Mapping[str, object] | None = None


def request_cluster(request: ClusterRequest, *, folder: Path | None = None) -> Cluster:
    """Build a cluster as a scenario would get it.

    Parameters
    ----------
    request : ClusterRequest
    folder : Path, optional
        Where relative paths start; the working directory by default.

    Returns
    -------
    Cluster

    Raises
    ------
    ScenarioError
        With every issue found; fields are called as the command's options are.

    Examples
    --------
    >>> request_cluster(ClusterRequest(topology="dgx-a100", nodes=2)).world_size
    16
    >>> request_cluster(ClusterRequest(topology="dgx-a10"))
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: --topology = dgx-a10: is no topology; allowed: ...
    """
    block = {"topology": request.topology, "nodes": request.nodes}
    block |= {"gpus": request.gpus} if request.gpus is not None else {}
    block |= {"fabric": dict(request.fabric)} if request.fabric else {}
    links = [{"link": name, "share": share} for name, share in (request.links or {}).items()]
    findings = Findings(draft=Draft(data={**_REST, "cluster": block, "perturb": {"links": links}}, source=_OPTIONS))
    scenario = check_structure(findings)
    cluster = None
    if scenario is not None and findings.sound("cluster"):
        cluster = Inputs(folder=folder or Path()).cluster(scenario.cluster, findings)
        if cluster is not None:
            cluster = disorder_links(cluster, scenario.perturb, findings)
    if findings.issues or cluster is None:
        raise ScenarioError([_as_option(issue) for issue in findings.issues])
    return cluster


def _as_option(issue: Issue) -> Issue:
    field = _named(issue.field)
    fix = _named(issue.fix) if issue.fix else None
    return replace(issue, field=field, fix=fix, file=None if issue.file == _OPTIONS else issue.file)


def _named(text: str) -> str:
    text = re.sub(r"perturb\.links(\[\d+\]\.\w+)?", "--link", text)
    return text.replace("cluster.fabric.", "--fabric ").replace("cluster.", "--")
