"""The bound of one candidate from its own roles: what its first pipeline takes with all links to itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simgpu.config.case import Case
from simgpu.costs.host_copy import HOST_KINDS, host_transfer
from simgpu.lower.communicators import groups_along
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.roles import StepRoles, write_roles
from simgpu.program import Collective, Recv, Send
from simgpu.searches.chain import Chain, Prices
from simgpu.searches.chain_play import least_period_ns
from simgpu.searches.chain_script import chain_steps
from simgpu.workload.host_costs import HostCosts

_NO_CPU: Final = HostCosts(forward_op_ns=0, backward_op_ns=0, collective_ns=0, launch_ns=0)


def chain_bound_ns(case: Case, chain: Chain, prices: KernelPrices, transfers: Prices) -> int:
    """Return a step time that no simulation of a case is below.

    Parameters
    ----------
    case : Case
    chain : Chain
        The pipeline of rank 0.
    prices : KernelPrices
    transfers : Prices

    Returns
    -------
    int, nanoseconds
        0 for Python's threads, which share one interpreter.

    Notes
    -----
    Ranks of other pipelines, links that transfers share, kernels that run slower beside communication and the CPU are
    left out; all of them only delay what is here.
    """
    if case.strategy.threaded:
        return 0
    software = replace(case.software, host=_NO_CPU)
    step = write_roles(case.model, case.training, case.strategy, prices=prices, software=software, named=False)
    pipeline = _Pipeline(step, chain, transfers)
    return least_period_ns(chain_steps(step.roles, pipeline.least_ns, pipeline.parties))


class _Pipeline:
    """Transfers of the pipeline's ranks."""

    def __init__(self, step: StepRoles, chain: Chain, transfers: Prices) -> None:
        self.step, self.chain, self.transfers = step, chain, transfers
        self.places = tuple(range(len(step.roles)))
        self.shared: dict[tuple[int, str], tuple[int, ...]] = {}

    def parties(self, place: int, communicator: str) -> tuple[int, ...]:
        """Return the places whose ranks are in the group that the rank at a place has of a communicator."""
        found = self.shared.get((place, communicator))
        if found is None:
            found = (place,)
            if "pp" in self.step.axes[communicator]:
                ways = groups_along(communicator, self.places, self.step.chunks, self.step.placement)
                found = next((way for way in ways if place in way), found)
            self.shared[place, communicator] = found
        return found

    def least_ns(self, place: int, item: Collective | Send | Recv) -> int:
        """Return what a transfer of the rank at a place takes at least."""
        rank, transfers = self.chain.rank(place), self.transfers
        if isinstance(item, Send):
            return transfers.message_ns(rank, self.chain.rank(item.peer), item.bytes)
        if isinstance(item, Recv):
            return transfers.message_ns(self.chain.rank(item.peer), rank, item.bytes)
        if item.kind in HOST_KINDS:
            cost = host_transfer(transfers.cluster, rank, item.kind, item.bytes)
            return cost.latency_ns + cost.stream_ns
        axes = self.step.axes[item.communicator]
        if axes == ("pp",):
            members = tuple(self.chain.rank(other) for other in self.parties(place, item.communicator))
            return transfers.collective_ns(members, item.kind, item.bytes)
        if "pp" in axes:  # the norm's few bytes among all ranks
            return 0
        return transfers.collective_ns(self.chain.group(item.communicator, place), item.kind, item.bytes)
