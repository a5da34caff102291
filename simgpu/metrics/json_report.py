"""The stable JSON form of reports, documented in docs/json.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from simgpu.metrics.advice import advice_to_json
from simgpu.metrics.gain import gains_to_json
from simgpu.metrics.memory import allowances
from simgpu.metrics.report import RankReport, Report

SCHEMA = 1


def runs_to_json(reports: Sequence[Report]) -> dict[str, Any]:
    """Turn reports into plain data for ``json.dumps``; schema 1 keeps its keys."""
    return {"schema": SCHEMA, "runs": [_run(report) for report in reports]}


def _run(report: Report) -> dict[str, Any]:
    return {
        "name": report.name,
        "gpus": report.gpus,
        "step_time_ns": report.step_time_ns,
        "step_time_s": report.step_time_s,
        "tokens_per_s": report.tokens_per_s,
        "tokens_per_s_per_gpu": report.tokens_per_s_per_gpu,
        "mfu": report.mfu,
        "hfu": report.hfu,
        "peak_flops_used": report.peak_flops_used,
        "bubble_fraction": report.bubble_fraction,
        "bubble_over_ideal": report.bubble_over_ideal,
        "overlap_ratio": report.overlap_ratio,
        "breakdown_ns": dict(report.breakdown_ns),
        "ranks": [_rank(rank) for rank in report.ranks],
        "peak_memory_bytes": report.peak_memory_bytes,
        "memory_by_category_bytes": dict(report.memory_by_category_bytes),
        "memory_allowances": asdict(allowances(report.memory_by_category_bytes)),
        "host_memory_by_category_bytes": dict(report.host_memory.by_category_bytes),
        "loading_memory": asdict(report.loading),
        "fits": report.fits,
        "verdict": report.verdict,
        "op_table": None if report.op_table is None else report.op_table.to_json(),
        "warnings": list(report.warnings),
        "critical_path": None if report.critical_path is None else report.critical_path.to_json(),
        "what_ifs": gains_to_json(report.what_ifs),
        "disappointments": list(report.disappointments),
        "advice": None if report.advice is None else advice_to_json(report.advice),
        "gpu_hours": report.gpu_hours,
        "cost": report.cost,
    }


def _rank(rank: RankReport) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "count": rank.count,
        "members": rank_ranges(rank.members),
        "stages": list(rank.stages),
        "breakdown_ns": dict(rank.breakdown_ns),
        "peak_memory_bytes": rank.peak_memory_bytes,
    }


def rank_ranges(members: Iterable[int]) -> str:
    """Write ranks the short way.

    Examples
    --------
    >>> rank_ranges([0, 1, 2, 7, 64, 65])
    '0-2,7,64-65'
    """
    runs: list[list[int]] = []
    for rank in sorted(members):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
