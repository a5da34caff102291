"""Expert parallelism's place in the layout: ranks that it takes, and what else it can be combined with."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from simgpu.config.findings import Findings
from simgpu.parallel.strategy import Strategy


def check_experts(strategy: Strategy, findings: Findings) -> None:
    """Note what expert parallelism does not fit: the ranks, their order, the kind of data parallelism.

    Parameters
    ----------
    strategy : Strategy
    findings : Findings

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> findings = Findings(draft=Draft(data={"parallel": {"ep": 3}}, source="s.yaml"))
    >>> check_experts(Strategy(dp=8, ep=3, data_parallel="ddp"), findings)
    >>> print(findings.issues[0])
    s.yaml: parallel.ep = 3: does not divide the dp x cp = 8 x 1 ranks that it is taken from; allowed: 1, 2, 4, 8
    """
    if not strategy.experts_apart:
        return
    field = "parallel.ep" if strategy.ep > 1 else "parallel.expert_tp"
    whole = strategy.expert_tensor != strategy.tp
    ranks = strategy.replicas * (strategy.tp if whole else 1)
    if ranks % strategy.ep:
        what = f"dp x cp x tp = {strategy.dp} x {strategy.cp} x {strategy.tp}"
        findings.add(
            field,
            f"does not divide the {what if whole else what.replace(' x tp', '').rpartition(' x ')[0]} ranks that it "
            "is taken from",
            allowed=", ".join(str(n) for n in range(1, ranks + 1) if ranks % n == 0),
        )
        return
    own, experts = strategy.mesh_degrees, strategy.expert_mesh_degrees
    if _place(own, "pp") != _place(experts, "pp") or (not whole and _place(own, "tp") != _place(experts, "etp")):
        findings.add(
            "parallel.order",
            "gives the experts' ranks other pipeline or tensor neighbours than the rest of the model has",
            allowed="with ep, an order with pp first and tp last, such as [pp, dp, cp, tp]",
            fix="leave parallel.order out",
        )
    if strategy.data_parallel == "zero3" and strategy.zero.divides:
        # deepspeedai/DeepSpeed runtime/engine.py, _validate_zero3_moe_compatibility: no hpZeRO, no quantised gradients
        given = "zero_hpz_partition_size" if strategy.zero.zero_hpz_partition_size > 1 else "zero_quantized_gradients"
        findings.add(f"zero.{given}", "is refused by DeepSpeed with expert parallelism", fix="leave it out")
    if strategy.data_parallel == "zero3" and strategy.ep > 1 and strategy.expert_tensor > 1:  # there too
        problem = "is refused by DeepSpeed with ZeRO-3: it has no experts split by tensor parallelism there"
        findings.add("parallel.expert_tp", problem, allowed="1", fix="set parallel.expert_tp to 1")
    if strategy.data_parallel == "zero3" and strategy.ep > 1 and strategy.cp > 1:  # and there
        findings.add("parallel.cp", "is refused by DeepSpeed with ZeRO-3 and expert parallelism", allowed="1")
    if strategy.sub_groups > 1 and strategy.expert_replicas % strategy.sub_groups:
        inside = ranks // strategy.sub_groups
        findings.add(
            field,
            f"does not divide the {inside} ranks of a sub-group, of which each has a copy of the experts",
            allowed=", ".join(str(n) for n in range(1, inside + 1) if inside % n == 0),
        )


def _place(degrees: Mapping[str, int], axis: str) -> tuple[int, int]:
    """Return how far apart an axis' neighbours are, and how many there are; places of single ranks are all alike."""
    axes = list(degrees)
    size = degrees[axis]
    return (prod(degrees[later] for later in axes[axes.index(axis) + 1 :]), size) if size > 1 else (0, 1)
