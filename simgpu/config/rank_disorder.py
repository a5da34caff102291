"""Slow ranks and jitter of a scenario's ``perturb`` block."""

from __future__ import annotations

import re

from simgpu.config.environment_block import PerturbBlock
from simgpu.config.findings import Findings
from simgpu.hardware.cluster import Cluster
from simgpu.lower.perturbation import UNDISTURBED, Perturbation

_FIELD = ("perturb", "slow_ranks")


def disorder_ranks(cluster: Cluster, perturb: PerturbBlock | None, findings: Findings) -> Perturbation:
    """Find the ranks that a scenario calls slow.

    Parameters
    ----------
    cluster : Cluster
    perturb : PerturbBlock or None
    findings : Findings
        Gets an issue for every name that is no rank.

    Returns
    -------
    Perturbation

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> from simgpu.hardware.cluster import build_cluster
    >>> duo = {"name": "duo", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...        "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> cluster = build_cluster(duo, nodes=1, gpus=None)
    >>> found = Findings(draft=Draft(data={}, source="s.yaml"))
    >>> disorder_ranks(cluster, PerturbBlock(slow_ranks={"0:1": 1.25}), found).slow
    {1: 1.25}
    """
    if perturb is None or not findings.sound("perturb"):
        return UNDISTURBED
    if perturb.seed is not None and not perturb.jitter:
        findings.add("perturb.seed", "has no effect without jitter", fix="set perturb.jitter, or leave it out")
    slow: dict[int, float] = {}
    last = f"{cluster.world_size - 1}, or NODE:GPU up to {cluster.nodes - 1}:{cluster.gpus_per_node - 1}"
    for name, factor in (perturb.slow_ranks or {}).items():
        rank = _rank(str(name), cluster)
        problem, allowed, fix = "", None, None
        if rank is None:
            problem, allowed = "is no rank of this run", f"a rank from 0 to {last}"
        elif factor < 1:
            problem, allowed, fix = "is below 1", "1 and above", "write how many times as long its kernels take: 1.2"
        elif rank in slow:
            problem, fix = "is a rank that is named twice", "leave one of them"
        else:
            slow[rank] = factor
        if problem:
            path = (*_FIELD, name)
            findings.note(path, findings.draft.issue(path, problem, value=factor, allowed=allowed, fix=fix))
    return Perturbation(slow=slow, jitter=perturb.jitter or 0.0, seed=perturb.seed or 0)


def _rank(name: str, cluster: Cluster) -> int | None:
    """Return the rank of a name, its number or node and GPU; None when there is none."""
    found = re.fullmatch(r"\s*(?:(\d+)\s*:\s*)?(\d+)\s*", name)
    if found is None:
        return None
    node, gpu = found[1], int(found[2])
    if node is None:
        return gpu if gpu < cluster.world_size else None
    whole = int(node) < cluster.nodes and gpu < cluster.gpus_per_node
    return int(node) * cluster.gpus_per_node + gpu if whole else None
