"""The links of a scenario's ``perturb`` block, applied to its cluster."""

from __future__ import annotations

import re

from simgpu.config.environment_block import PerturbBlock
from simgpu.config.findings import Findings
from simgpu.errors import ScenarioError
from simgpu.hardware.cluster import Cluster
from simgpu.hardware.disorder import Disorder, disordered
from simgpu.io.yaml_file import FieldPath


def disorder_links(cluster: Cluster, perturb: PerturbBlock | None, findings: Findings) -> Cluster | None:
    """Take bandwidth, or links, away from a cluster as a scenario asks.

    Parameters
    ----------
    cluster : Cluster
    perturb : PerturbBlock or None
    findings : Findings

    Returns
    -------
    Cluster or None
        The same object where nothing is asked for; None, with findings, when a name is that of no link or a GPU would
        be cut off.
    """
    asked = perturb.links if perturb is not None else None
    if not asked or not findings.sound("perturb.links"):
        return cluster
    try:
        return disordered(cluster, [Disorder(link=entry.link, share=entry.share) for entry in asked], "perturb.links")
    except ScenarioError as error:
        for issue in error.issues:
            path: FieldPath = tuple(
                int(part) if part.isdigit() else part for part in re.split(r"[.\[\]]+", issue.field) if part
            )
            findings.note(
                path,
                findings.draft.issue(path, issue.problem, value=issue.value, allowed=issue.allowed, fix=issue.fix),
            )
    return None
