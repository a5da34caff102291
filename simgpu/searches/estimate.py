"""From candidates to the columns of the bound: each table is filled once, whatever candidates share it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from simgpu.config.case import Case
from simgpu.config.inputs import Inputs
from simgpu.config.point_case import point_case
from simgpu.config.search_space import SearchSpace, strategy_data
from simgpu.config.timed_schedule import TIMED
from simgpu.errors import SimGPUError
from simgpu.parallel.pipeline import pipeline_schedule
from simgpu.parallel.schedules import PIPELINE_SCHEDULES
from simgpu.parallel.stages import partition_layers
from simgpu.pricing import op_prices
from simgpu.searches.bound import PLACES, Columns
from simgpu.searches.candidates import Candidate
from simgpu.searches.chain import Chain, Prices
from simgpu.searches.chain_bound import chain_bound_ns
from simgpu.searches.model_times import ModelTimes, stage_times
from simgpu.searches.pipeline_shape import PipelineShape, RankShape, pipeline_shape
from simgpu.searches.rank_costs import RankCosts, RankCostTable
from simgpu.searches.schedule_walk import StageLeast, walk_schedule
from simgpu.searches.store import gradient_store
from simgpu.workload.layer import ModelUnits

_PLAIN: Final = "1f1b"
_BATCHED: Final = ("gpipe", "1f1b")
_NAMES: Final = (
    "fill_ns", "drain_ns", "work_ns", "passes_ns", "gaps_ns", "exposed_ns", "behind_ns", "hidden_ns", "last_ns",
    "stream_ns", "norm_ns", "update_ns", "issue_ns", "memory_bytes",
)  # fmt: skip


@dataclass(slots=True)
class Estimator:
    """Prices the candidates of a space.

    Parameters
    ----------
    space : SearchSpace
    """

    space: SearchSpace
    inputs: Inputs = field(init=False)
    _cases: dict[Hashable, Case | str] = field(default_factory=dict)
    _times: ModelTimes = field(init=False)
    _ranks: RankCostTable = field(init=False)
    _chains: dict[Hashable, Chain] = field(default_factory=dict)
    _stages: dict[Hashable, list[list[int]]] = field(default_factory=dict)
    _transfers: Prices | None = None

    def __post_init__(self) -> None:
        self.inputs = Inputs(folder=self.space.folder)

    def columns(self, candidates: Sequence[Candidate], *, transfers: bool) -> tuple[Columns, dict[int, str]]:
        """Return the columns of candidates, and why those that cannot be laid out cannot.

        Parameters
        ----------
        candidates : sequence of Candidate
        transfers : bool
            Price those of data parallelism too, which takes milliseconds a candidate.

        Returns
        -------
        Columns
            Zeros for candidates that cannot be laid out.
        dict of int to str
            Position to reason.
        """
        table: dict[str, Any] = {name: np.zeros((len(candidates), PLACES), np.int64) for name in _NAMES}
        together, chained = (np.zeros(len(candidates), np.bool_) for _ in range(2))
        wrong: dict[int, str] = {}
        for row, candidate in enumerate(candidates):
            case = self.case(candidate)
            if isinstance(case, str):
                wrong[row] = case
                continue
            shape = self._shape(candidate, case)
            for place, values in enumerate(self._values(case, shape, transfers=transfers)):
                for name in ("memory_bytes",) if case.perturbation.jitter else values:  # a draw may be a short one
                    table[name][row, place] = values[name]
            together[row] = case.strategy.pp == 1 or case.training.optimizer != "none"
            chained[row] = not shape.mirrored
        return Columns(**table, together=together, chained=chained), wrong

    def case(self, candidate: Candidate) -> Case | str:
        """Return the case of a candidate, without what only its schedule's own table knows; or why there is none."""
        values = candidate.values
        key = tuple(values[axis] for axis in ("tp", "pp", "cp", "data_parallel", "order"))
        found = self._cases.get(key)
        if found is None or isinstance(found, str):
            found = self._cases[key] = self._probe(candidate)
        if isinstance(found, str):
            return found
        virtual = values["virtual_stages"] if found.strategy.pp > 1 else 1
        schedule = values["schedule"] or _PLAIN
        strategy = replace(found.strategy, schedule=schedule, virtual_stages=self._virtual(schedule, virtual))
        training = replace(
            found.training,
            micro_batch_size=values["micro_batch_size"],
            accumulation=candidate.microbatches,
            recompute=values["recompute"],
        )
        return replace(found, strategy=strategy, training=training)

    def _virtual(self, schedule: str, virtual: int | None) -> int:
        kind = PIPELINE_SCHEDULES.get(schedule)
        return virtual or (1 if kind is None else kind.default_virtual)

    def _probe(self, candidate: Candidate) -> Case | str:
        values: dict[str, Any] = dict(candidate.values)
        if self.space.base.get("parallel", {}).get("layers_per_stage") is None:
            values |= {"schedule": _PLAIN, "virtual_stages": None}
        try:
            return point_case("candidate", strategy_data(self.space.base, values), self.inputs)
        except SimGPUError as error:
            return " ".join(str(error).split())

    def _shape(self, candidate: Candidate, case: Case) -> PipelineShape:
        return pipeline_shape(case.strategy, candidate.microbatches)

    def _values(self, case: Case, shape: PipelineShape, *, transfers: bool) -> list[Mapping[str, int]]:
        """Return the columns of one candidate, by places."""
        strategy, m = case.strategy, case.training.accumulation
        self._prices(case)
        chain = self._chain(case)
        parts = self._times.units(case, gradient_store(case.training, strategy))
        forward, backward, more, inputs, weights, saved, _, *issues = self._stage_times(case, shape)
        less = [b + min(f, 0) for b, f in zip(backward, more, strict=True)]
        back = [min(i, b) for i, b in zip(inputs, less, strict=True)] if shape.split else less
        hops = self._hops_ns(case, shape, parts)
        places = sorted(shape.ranks)
        found: list[Mapping[str, int]] = []
        for place in places:
            rank = shape.ranks[place]
            costs = self._ranks.costs(case, parts, shape, place, chain if transfers else None)
            first = min(rank.stages)
            work = passes = 0
            issued = costs.issue_ns
            for stage, count in zip(rank.stages, rank.microbatches, strict=True):
                whole, split = issues[1][stage], issues[2][stage]
                issued += count * (issues[0][stage] + (min(whole, split) if shape.split else whole))
                if shape.split:
                    work += count * (forward[stage] + min(less[stage], inputs[stage] + weights[stage]))
                    passes += count * (forward[stage] + back[stage])
                else:
                    both = count * (forward[stage] + backward[stage]) + more[stage]
                    work, passes = work + both, passes + both
            count = min(rank.microbatches)
            last, several = 0, len(rank.stages) > 1
            if costs.hidden_ns and not shape.split and not several:
                last = backward[first] + max(more[first], 0)
            found.append({
                "fill_ns": 0 if shape.mirrored else sum(forward[:first]) + sum(hops[:first]),
                "drain_ns": 0 if shape.mirrored else sum(back[:first]) + sum(hops[:first]),
                "work_ns": work,
                "passes_ns": passes,
                "gaps_ns": self._gaps(case, place) * min(hops[max(0, place - 1) : place + 1], default=0),
                "exposed_ns": costs.exposed_ns + count * costs.exposed_each_ns,
                "behind_ns": 0 if several or shape.split else costs.behind_ns + count * costs.behind_each_ns,
                "hidden_ns": costs.hidden_ns if last else 0,
                "last_ns": last,
                "stream_ns": costs.gathered_ns + count * costs.gathered_each_ns,
                "norm_ns": costs.norm_ns,
                "update_ns": costs.update_ns,
                "issue_ns": issued,
                "memory_bytes": self._memory_bytes(case, rank, costs, saved),
            })  # fmt: skip
        return found + [found[-1]] * (PLACES - len(found)) if m else []

    def walked(self, candidate: Candidate) -> tuple[int, int]:
        """Return step and memory that a candidate cannot be below, from its schedule played action by action.

        Parameters
        ----------
        candidate : Candidate
            One that can be laid out.

        Returns
        -------
        int, nanoseconds
        int, bytes
            Both 0 where the schedule is made for the case's own times. The step is 0 where kernels' times scatter.
        """
        case = self.case(candidate)
        if isinstance(case, str) or case.strategy.pp == 1 or case.strategy.schedule == TIMED:
            return 0, 0
        shape, strategy = self._shape(candidate, case), case.strategy
        together = case.training.optimizer != "none"
        if shape.mirrored and not together:
            return 0, 0
        chain, parts = self._chain(case), self._times.units(case, gradient_store(case.training, strategy))
        costs = {place: self._ranks.costs(case, parts, shape, place, chain) for place in shape.ranks}
        home = {rank.stages[0]: place for place, rank in shape.ranks.items() if len(rank.stages) == 1}
        shared = {}  # of the stages of those ranks
        for place, rank in shape.ranks.items():
            one = costs[place]
            moving = [(0, 0)] * len(rank.stages) if shape.mirrored else zip(one.gathers_ns, one.reduces_ns, strict=True)
            for stage, size, whole, moved in zip(
                rank.stages, one.gradients_bytes, one.gathered_bytes, moving, strict=True
            ):
                shared[stage] = size, one.dropped, whole, *moved
        working = self._working_bytes(case, shape, parts)
        stages = []
        for stage, (f, b, more, i, w, saved, owed, *_) in enumerate(zip(*self._stage_times(case, shape), strict=True)):
            own = costs.get(home.get(stage, -1))
            whole = own is not None and not shape.split
            each, once = (own.exposed_each_ns, own.exposed_ns) if own is not None and whole else (0, 0)
            times = (f, b + min(more, 0) + each, i, w, once)
            stages.append(StageLeast(*times, saved, owed, working[stage], *shared.get(stage, ())))
        starts = [costs[place].update_ns if together and place in costs else 0 for place in range(strategy.pp)]
        table = pipeline_schedule(strategy, candidate.microbatches)
        ends = walk_schedule(table, stages, self._hops_ns(case, shape, parts), starts)
        kept = not _freezes(case)
        held = max(one.resident_bytes + kept * ends[place].kept_bytes for place, one in costs.items())
        if case.perturbation.jitter:
            return 0, held
        if together:
            norms = [costs[place].norm_ns if place in costs else 0 for place in range(strategy.pp)]
            return max(end.end_ns + norm for end, norm in zip(ends, norms, strict=True)), held
        return ends[0].end_ns + costs[0].norm_ns + costs[0].update_ns, held

    def played_ns(self, candidate: Candidate) -> int:
        """Return a step that a candidate cannot be below, from its own roles.

        Parameters
        ----------
        candidate : Candidate
            One that can be laid out.

        Returns
        -------
        int, nanoseconds
            0 where the schedule is made for the case's own times, where kernels' times scatter, or where the case turns
            out wrong.
        """
        case = self.case(candidate)
        if isinstance(case, str) or case.strategy.schedule == TIMED or case.perturbation.jitter:
            return 0
        transfers, chain = self._prices(case), self._chain(case)
        try:
            return chain_bound_ns(case, chain, self._ranks.prices, transfers)
        except SimGPUError:
            return 0  # the simulation says what is wrong

    def _stage_times(self, case: Case, shape: PipelineShape) -> list[list[int]]:
        """Return the columns of `stage_times`, a list each."""
        layers = self._times.layers(case, gradient_store(case.training, case.strategy), self._chain(case))
        key = (id(layers), len(shape.rank_of_stage), case.strategy.layers_per_stage)
        found = self._stages.get(key)
        if found is None:
            times = stage_times(layers, len(shape.rank_of_stage), case.strategy.layers_per_stage)
            found = self._stages[key] = times.T.tolist()
        return found

    def _working_bytes(self, case: Case, shape: PipelineShape, parts: ModelUnits) -> list[int]:
        """Return what backward takes at its begin, in the last unit of each stage."""
        partition = partition_layers(len(parts.layers), len(shape.rank_of_stage), case.strategy.layers_per_stage)
        found, end = [], 0
        for stage in partition:
            end += stage.blocks
            unit = parts.head if stage.last else parts.layers[end - 1].units[-1] if stage.blocks else parts.embedding
            found.append(unit.backward_bytes + (unit.recomputed_bytes if unit.recompute else 0))
        return found

    def _hops_ns(self, case: Case, shape: PipelineShape, parts: ModelUnits) -> list[int]:
        """Return what a message from each stage to the next takes at least."""
        prices, chain, size = self._prices(case), self._chain(case), self._message_bytes(case, parts)
        pairs = zip(shape.rank_of_stage, shape.rank_of_stage[1:], strict=False)
        return [prices.message_ns(chain.rank(one), chain.rank(other), size) for one, other in pairs]

    def _memory_bytes(self, case: Case, rank: RankShape, costs: RankCosts, saved: Sequence[int]) -> int:
        """Return what a rank holds at its first backward, at its second one, or of gradients alone."""
        if _freezes(case):
            return costs.resident_bytes
        whole = zip(rank.stages, costs.gathered_bytes, strict=True)
        live = sum(rank.live.get(stage, 0) * saved[stage] for stage in rank.stages)
        live += sum(size for stage, size in whole if rank.live.get(stage, 0))
        gradients, ahead = sum(costs.gradients_bytes), max(rank.live.values(), default=0)
        if case.strategy.schedule == _PLAIN and len(rank.stages) == 1 and case.training.accumulation > ahead:
            return costs.resident_bytes + live + gradients  # 1F1B runs a forward before its second backward
        return costs.resident_bytes + max(live, gradients)

    def _gaps(self, case: Case, place: int) -> int:
        """Return between how many of a rank's passes it waits for messages, where it waits for all of them."""
        strategy, m = case.strategy, case.training.accumulation
        p, v = strategy.pp, strategy.virtual_stages
        if p == 1 or strategy.overlap_p2p or strategy.table is not None:
            return 0
        inside = 0 < place < p - 1
        if strategy.schedule in _BATCHED:
            return 2 * m - 1 if inside else m - 1 if place else m
        if strategy.schedule != "interleaved_1f1b" or m % p or not inside:
            return 0
        return m * v + min(2 * (p - 1 - place) + (v - 1) * p, m * v) - 1

    def _message_bytes(self, case: Case, parts: ModelUnits) -> int:
        """Return what the smallest message between stages carries."""
        strategy = case.strategy
        size = min([parts.embedding.output_bytes, *(layer.units[-1].output_bytes for layer in parts.layers)])
        scattered = strategy.scatter_gather and strategy.tp > 1 and not strategy.sequence_parallel
        return int(size // strategy.tp if scattered else size)

    def _prices(self, case: Case) -> Prices:
        if self._transfers is None:
            self._transfers = Prices(case.cluster, case.nccl, case.network_free)
            prices = op_prices(case)
            self._times = ModelTimes(prices, self._transfers)
            self._ranks = RankCostTable(prices, self._transfers)
        return self._transfers

    def _chain(self, case: Case) -> Chain:
        strategy = case.strategy
        key = (tuple(strategy.mesh_degrees.items()), tuple(strategy.expert_mesh_degrees.items()))
        found = self._chains.get(key)
        if found is None:
            found = self._chains[key] = Chain.of(strategy)
        return found


def _freezes(case: Case) -> bool:
    """Whether some weights are not trained: what passes keep then depends on which, and is not counted."""
    training = case.training
    return bool(training.frozen_share or training.frozen_names or training.lora)
