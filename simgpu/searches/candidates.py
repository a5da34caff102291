"""Every strategy of a search space that its model, cluster, batch and schedule allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Final

from simgpu.config.degrees import tensor_problems
from simgpu.config.search_space import SearchSpace, strategy_data
from simgpu.errors import Issue, ScenarioError
from simgpu.parallel.data_parallel_options import WITHOUT_PIPELINES
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, global_stages, refusal

LARGEST_SPACE: Final = 200_000
"""Candidates that are held in memory, a kilobyte each."""
_SEVERAL: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One strategy.

    Parameters
    ----------
    index : int
        Its place in canonical order.
    values : mapping of axis to value
        As `simgpu.config.search_space.AXES` has the axes; None where a field is left out.
    dp : int
        Data-parallel degree.
    microbatches : int
        Per step and pipeline.
    """

    index: int
    values: Mapping[str, Any]
    dp: int
    microbatches: int

    def data(self, space: SearchSpace) -> dict[str, Any]:
        """Return the scenario with this strategy, as plain data."""
        return strategy_data(space.base, self.values)


def list_candidates(space: SearchSpace) -> tuple[Candidate, ...]:
    """List the candidates of a space in canonical order: by the axes' order, each axis in the order of its values.

    Parameters
    ----------
    space : SearchSpace

    Returns
    -------
    tuple of Candidate
        One of several that would be the same: without a pipeline there is one schedule, and orders that differ only in
        axes of one rank are one order.

    Raises
    ------
    ScenarioError
        When there are none, or too many.

    Examples
    --------
    >>> from simgpu.config.search_space import load_search
    >>> space = load_search({"model": "gpt2", "cluster": {"topology": "dgx-a100"},
    ...     "training": {"sequence_length": 1024, "global_batch_size": 64, "recompute": "none", "micro_batch_size": 2},
    ...     "search": {"tp": [1, 2, 8], "pp": [1, 4], "data_parallel": ["ddp"], "schedule": ["1f1b"]}})
    >>> for one in list_candidates(space):  # 8 does not divide the 12 heads
    ...     print(one.values["tp"], one.values["pp"], one.dp, one.microbatches, one.values["order"])
    1 1 8 4 ('pp', 'dp', 'cp', 'tp')
    1 4 2 16 ('pp', 'dp', 'cp', 'tp')
    1 4 2 16 ('dp', 'pp', 'cp', 'tp')
    2 1 4 8 ('pp', 'dp', 'cp', 'tp')
    2 4 1 32 ('pp', 'dp', 'cp', 'tp')
    """
    found: list[Candidate] = []
    for values, dp, microbatches in _legal(space):
        found.append(Candidate(index=len(found), values=values, dp=dp, microbatches=microbatches))
        if len(found) > LARGEST_SPACE:
            problem = f"has more than {LARGEST_SPACE:,} strategies"
            raise ScenarioError([Issue(field="search", problem=problem, fix="list fewer values of its axes")])
    if not found:
        problem = "has no strategy that model, cluster and batch allow"
        fix = (
            "list other values: tp x cp x pp divides the GPUs, micro_batch_size x dp the global batch, and the stages \
divide the layers; ZeRO-2 and ZeRO-3 take no pipeline"
        )
        raise ScenarioError([Issue(field="search", problem=problem, fix=fix)])
    return tuple(found)


def _legal(space: SearchSpace) -> Iterator[tuple[dict[str, Any], int, int]]:
    axes, gpus, batch = space.axes, space.cluster.world_size, space.global_batch_size
    inner = [axes[name] for name in ("data_parallel", "micro_batch_size", "recompute", "schedule", "order")]
    for tp, pp, virtual, cp in product(axes["tp"], axes["pp"], axes["virtual_stages"], axes["cp"]):
        pp = pp or 1
        if gpus % (tp * pp * cp) or not _splits(space, tp):
            continue
        if pp == 1 and virtual != axes["virtual_stages"][0]:
            continue
        dp = gpus // (tp * pp * cp)
        seen: set[tuple[Any, ...]] = set()
        for kind, micro, recompute, schedule, order in product(*inner):
            if batch % (micro * dp) or (pp == 1 and schedule != axes["schedule"][0]):
                continue
            if pp > 1 and not _scheduled(space, schedule, pp, virtual, batch // (micro * dp)):
                continue
            if kind == "none" and dp * cp > 1:
                continue
            if pp > 1 and dp > 1 and kind in WITHOUT_PIPELINES:
                continue
            degrees = {"pp": pp, "dp": dp, "cp": cp, "tp": tp}
            same = (kind, micro, recompute, schedule, tuple(axis for axis in order or () if degrees.get(axis, 2) > 1))
            if same in seen:
                continue
            seen.add(same)
            values = {
                "tp": tp, "pp": pp, "virtual_stages": virtual if pp > 1 else None, "cp": cp, "data_parallel": kind,
                "micro_batch_size": micro, "recompute": recompute, "schedule": schedule if pp > 1 else None,
                "order": order,
            }  # fmt: skip
            yield values, dp, batch // (micro * dp)


def _scheduled(space: SearchSpace, schedule: str | None, pp: int, virtual: int | None, microbatches: int) -> bool:
    """Whether a schedule takes the numbers and divides the layers; several stages a rank are one of its own kind."""
    if schedule is None or schedule not in PIPELINE_SCHEDULES:  # a file: only the simulation's own checks know
        return True
    kind, stages_each = PIPELINE_SCHEDULES[schedule], virtual or 1
    if kind.default_virtual >= _SEVERAL > stages_each:
        return False
    stages = global_stages(schedule, ranks=pp, virtual=stages_each)
    uneven = space.base.get("parallel", {}).get("layers_per_stage") is None and space.model.layers % max(1, stages)
    return stages > 0 and not uneven and _takes(schedule, pp, stages_each, microbatches)


@cache
def _takes(schedule: str, pp: int, virtual: int, microbatches: int) -> bool:
    return refusal(schedule, ranks=pp, virtual=virtual, microbatches=microbatches) is None


def _splits(space: SearchSpace, tp: int) -> bool:
    return tp == 1 or not tensor_problems(space.model, tp)
