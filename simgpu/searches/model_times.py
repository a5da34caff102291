"""Least times of every layer of a model as one rank of a strategy runs it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simgpu.config.case import Case
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.segments import SegmentCompiler
from simgpu.parallel.data_parallel import SHARDED_WEIGHTS
from simgpu.parallel.data_parallel.plan import GradientStore
from simgpu.parallel.stages import partition_layers
from simgpu.searches.chain import Chain, Prices
from simgpu.searches.pass_times import PassTimes, unit_times
from simgpu.workload.families import model_units
from simgpu.workload.frozen import trained_units
from simgpu.workload.host_costs import HostCosts
from simgpu.workload.layer import ModelUnits
from simgpu.workload.training import Training
from simgpu.workload.unit import Exchange, Unit

Int64 = NDArray[np.int64]
AXES = ("tp", "cp", "ep")
"""Communicators of exchanges within a pass; others are taken to cost nothing."""


class Layers(NamedTuple):
    """Rows of `PassTimes`: of each layer, of the embedding, of the head."""

    layers: Int64  # (layers, 10)
    embedding: Int64  # (10,)
    head: Int64  # (10,)


@dataclass(slots=True)
class ModelTimes:
    """Finds units and their times, each once for all strategies that share them.

    Parameters
    ----------
    prices : KernelPrices
        Of ops.
    transfers : Prices
        Of exchanges.
    """

    prices: KernelPrices
    transfers: Prices
    _units: dict[Hashable, ModelUnits] = field(default_factory=dict)
    _compilers: dict[Hashable, SegmentCompiler] = field(default_factory=dict)
    _layers: dict[Hashable, Layers] = field(default_factory=dict)

    def units(self, case: Case, store: GradientStore) -> ModelUnits:
        """Return what one rank runs; layers are recomputed as the case says, all of them or none.

        Where only some layers of a stage are recomputed, none is here: that is the least.
        """
        strategy, training = case.strategy, case.training
        key = self._key(case, store)
        found = self._units.get(key)
        if found is None:
            apart = strategy.copies > 1 or strategy.alone_alike
            sharded = apart and strategy.data_parallel in SHARDED_WEIGHTS
            parts = model_units(
                case.model,  # type: ignore[arg-type]  # a search has no synthetic models
                _recipe(case),
                tp=strategy.tp,
                sequence_parallel=strategy.sequence_parallel,
                cast_weights=not sharded and training.param_dtype != training.precision,
                software=case.software,
                gradient_buffers=store.zeroed,
                gathered_weights=sharded,
                splits=strategy.splits,
            )
            scattered = strategy.tp if strategy.sequence_parallel else 1
            found = trained_units(parts, case.model, _recipe(case), scattered=scattered)  # type: ignore[arg-type]
            self._units[key] = found
        return found

    def layers(self, case: Case, store: GradientStore, chain: Chain) -> Layers:
        """Return the least times of every layer, exchanges over the chain's fastest groups."""
        groups = {
            axis: frozenset(self.transfers.alike(chain.group(axis, place)) for place in range(case.strategy.pp))
            for axis in AXES
        }
        key = (self._key(case, store), store, tuple(groups.items()))
        found = self._layers.get(key)
        if found is None:
            host = None if case.software.host.free else case.software.host
            found = self._layers[key] = self._times(
                self.units(case, store), store, groups, self._key(case, store), host
            )
        return found

    def _times(
        self,
        parts: ModelUnits,
        store: GradientStore,
        groups: dict[str, frozenset[tuple[int, ...]]],
        key: Hashable,
        host: HostCosts | None,
    ) -> Layers:
        compiler = self._compilers.setdefault(key, SegmentCompiler(self.prices))

        def exchange_ns(item: Exchange) -> int:
            ways = groups.get(item.axis, ())
            return min((self.transfers.collective_ns(way, item.kind, item.bytes) for way in ways), default=0)

        known: dict[int, PassTimes] = {}

        def times(unit: Unit) -> PassTimes:
            if id(unit) not in known:
                known[id(unit)] = unit_times(unit, compiler, exchange_ns, store, host)
            return known[id(unit)]

        rows = [np.sum([times(unit) for unit in layer.units], axis=0, dtype=np.int64) for layer in parts.layers]
        embedding, head = (np.array(times(unit), np.int64) for unit in (parts.embedding, parts.head))
        return Layers(np.array(rows, np.int64), embedding, head)

    def _key(self, case: Case, store: GradientStore) -> Hashable:
        strategy, training = case.strategy, _recipe(case)
        sharded = strategy.data_parallel in SHARDED_WEIGHTS and (strategy.copies > 1 or strategy.alone_alike)
        splits = strategy.splits
        return (strategy.tp, strategy.sequence_parallel, splits, sharded, store.zeroed, training)


def stage_times(layers: Layers, stages: int, layers_per_stage: tuple[int, ...] | None) -> Int64:
    """Sum the rows of `Layers` over the stages.

    Parameters
    ----------
    layers : Layers
    stages : int
    layers_per_stage : tuple of int, optional
        Equal stages when None.

    Returns
    -------
    (stages, 10) int64
        Columns as `PassTimes`.

    Examples
    --------
    >>> ones = np.ones((4, 10), np.int64)
    >>> stage_times(Layers(ones, 10 * ones[0], 100 * ones[0]), 2, None)[:, 0].tolist()
    [12, 102]
    """
    partition = partition_layers(len(layers.layers), stages, layers_per_stage)
    ends = np.cumsum([stage.blocks for stage in partition])
    sums = np.vstack([np.zeros((1, layers.layers.shape[1]), np.int64), np.cumsum(layers.layers, axis=0)])
    found = np.diff(sums[np.r_[0, ends]], axis=0)
    found[0] += layers.embedding
    found[-1] += layers.head
    return found


def _recipe(case: Case) -> Training:
    """Return what units depend on; where only some layers are recomputed, none is: that is the least."""
    training = replace(case.training, accumulation=1)
    if training.recompute_layers is not None:
        training = replace(training, recompute="none", recompute_layers=None)
    return training
