"""The ranks of one pipeline, the first replica's, and what their transfers take at least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simgpu.costs.collectives.settings import NcclSettings
from simgpu.costs.send_ring import ring_of_sends
from simgpu.costs.transfers import collective, point_to_point
from simgpu.hardware.cluster import Cluster
from simgpu.parallel.strategy import Strategy

_RINGS = ("send_ring", "copy_ring")


@dataclass(slots=True)
class Prices:
    """Durations of transfers that have all links to themselves, each found once.

    Parameters
    ----------
    cluster : Cluster
    nccl : NcclSettings
    free : bool
        Communication costs nothing.
    """

    cluster: Cluster
    nccl: NcclSettings
    free: bool
    _found: dict[tuple[tuple[int, ...], str, int], int] = field(default_factory=dict)

    def collective_ns(self, members: tuple[int, ...], kind: str, size_bytes: int) -> int:
        """Return what a collective takes at least, nanoseconds."""
        if self.free or len(members) < 2:
            return 0
        key = (self.alike(members), kind, size_bytes)
        found = self._found.get(key)
        if found is None:
            if kind in _RINGS:
                cost = ring_of_sends(self.cluster, key[0], size_bytes, self.nccl)
            else:
                cost = collective(self.cluster, key[0], kind, size_bytes, self.nccl)
            found = self._found[key] = cost.latency_ns + cost.stream_ns
        return found

    def message_ns(self, source: int, target: int, size_bytes: int) -> int:
        """Return what a message takes at least, nanoseconds."""
        if self.free or source == target:
            return 0
        key = ((source, target), "send", size_bytes)
        found = self._found.get(key)
        if found is None:
            cost = point_to_point(self.cluster, source, target, size_bytes, self.nccl)
            found = self._found[key] = cost.latency_ns + cost.stream_ns
        return found

    def alike(self, members: tuple[int, ...]) -> tuple[int, ...]:
        """Return the same group on the first node, where it lies within one of many alike nodes."""
        if not members:
            return members
        each = self.cluster.gpus_per_node
        node = members[0] // each
        if node == 0 or members[-1] // each != node or not self.cluster.like_first(node):
            return members
        return tuple(member - node * each for member in members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The pipeline of rank 0: the ranks whose place is 0 on every axis but the pipeline's.

    Parameters
    ----------
    strategy : Strategy
    strides : mapping of mesh axis to int
        Distance of neighbours along an axis; the experts' mesh has its own names.
    """

    strategy: Strategy
    strides: Mapping[str, tuple[int, int]]  # mesh axis -> (stride, degree)
    _groups: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, strategy: Strategy) -> Chain:
        """Lay a strategy's meshes out.

        Examples
        --------
        >>> chain = Chain.of(Strategy(tp=2, pp=2, dp=2))
        >>> chain.rank(1), chain.group("tp", 1), chain.group("dp", 0)
        (4, (4, 5), (0, 2))
        """
        strides: dict[str, tuple[int, int]] = {}
        for degrees in (strategy.expert_mesh_degrees, strategy.mesh_degrees):  # the common mesh's pp and tp hold
            stride = 1
            for axis, degree in reversed(list(degrees.items())):
                strides[axis] = (stride, degree)
                stride *= degree
        return cls(strategy=strategy, strides=strides)

    def rank(self, place: int) -> int:
        """Return the rank at a place of the pipeline."""
        return place * self.strides["pp"][0]

    def group(self, communicator: str, place: int) -> tuple[int, ...]:
        """Return the members of a communicator's group with the rank at a place of the pipeline; empty for none."""
        found = self._groups.get((communicator, place))
        if found is None:
            found = self._groups[communicator, place] = self._members(communicator, place)
        return found

    def _members(self, communicator: str, place: int) -> tuple[int, ...]:
        axes: Sequence[str] = self.strategy.mesh_axes.get(communicator, ())
        if not axes or any(axis not in self.strides for axis in axes):
            return ()
        members = [self.rank(place)]
        for axis in axes:
            stride, degree = self.strides[axis]
            members = [member + step * stride for step in range(degree) for member in members]
        return tuple(sorted(members))
