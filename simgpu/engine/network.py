"""Transfers under way on shared links, re-solved when one starts or ends, for its connected component only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from simpy import Environment, Event

from simgpu.engine.fairness import Demand, Share, demand, fair_shares
from simgpu.engine.instant import Instant
from simgpu.engine.levels import NEVER_NS
from simgpu.engine.recorder import Recorder
from simgpu.engine.shared_links import shared_links
from simgpu.program import Program, TransferCost

_MOST_KNOWN: Final = 10_000  # solutions that are kept; more would be of jobs in which nothing repeats


@dataclass(slots=True, eq=False)
class Flow:
    """One transfer on shared links; work is counted in nanoseconds at its top speed."""

    order: int
    transfer: int
    demand: Demand
    stream_ns: int
    done: Callable[[int], None]
    left_ns: float
    since_ns: int
    speed: float = 0.0
    limit: int = -1
    finish_ns: int = 0

    def earliest_end_ns(self, now_ns: int) -> int:
        """Return when it ends if from now on nothing else loads its links."""
        return now_ns + math.floor(max(0.0, self.left_ns - self.speed * (now_ns - self.since_ns)))


@dataclass(slots=True)
class Network:
    """The links of a Program while it is played."""

    env: Environment
    instant: Instant
    program: Program
    recorder: Recorder
    shared: frozenset[int] = frozenset()
    _owners: dict[int, frozenset[int]] = field(default_factory=dict)
    _flows: dict[int, Flow] = field(default_factory=dict)
    _on_link: dict[int, dict[int, None]] = field(default_factory=dict)
    _touched: set[int] = field(default_factory=set)
    _pending: bool = False
    _armed_ns: int = NEVER_NS  # when the next one ends, as far as is known
    _order: int = 0
    _demands: dict[int, Demand] = field(default_factory=dict)
    _known: dict[tuple[int, ...], list[Share]] = field(default_factory=dict)  # by what shares links

    def __post_init__(self) -> None:
        self.shared = shared_links(self.program)
        for (group, key), cost in self.program.transfers.items():
            members = self.program.groups[group].members
            parties = frozenset(members if key.source < 0 else (members[key.source], members[key.target]))
            for load in cost.loads if cost.stream_ns else ():
                if load.link in self.shared:
                    self._owners[load.link] = self._owners.get(load.link, parties) & parties

    def owners(self, link: int) -> frozenset[int]:
        """Return the ranks that take part in every transfer on a shared link: nothing moves there unless they do."""
        return self._owners[link]

    def is_full_speed(self, cost: TransferCost) -> bool:
        """Whether a transfer that has its links to itself is as fast as its price says."""
        return self._solved([demand(cost, self.shared)]) == [Share(1.0, -1)]

    def start(self, transfer: int, cost: TransferCost, done: Callable[[int], None]) -> Flow:
        """Let a transfer's bytes flow from now on; ``done(end_ns)`` is called when the last has arrived."""
        wanted = self._demands.get(transfer)
        if wanted is None:
            wanted = self._demands[transfer] = demand(cost, self.shared)
        self._order += 1
        flow = Flow(self._order, transfer, wanted, cost.stream_ns, done, float(cost.stream_ns), int(self.env.now))
        self._flows[flow.order] = flow
        alone = True
        for link, _, _ in wanted.shares:
            others = self._on_link.setdefault(link, {})
            alone = alone and not others
            others[flow.order] = None
        if alone:  # it changes nobody's speed
            (share,) = self._shares([flow])
            self._go(flow, share, flow.since_ns)
            self._arm(flow.finish_ns)
        else:
            self._mark(wanted)
        return flow

    def _mark(self, changed: Demand) -> None:
        self._touched.update([link for link, _, _ in changed.shares])
        if not self._pending:
            self._pending = True
            self.instant.last(self._resolve)  # all changes of one instant are handled together

    def _resolve(self) -> None:
        self._pending = False
        now = int(self.env.now)
        flows = self._component()
        for flow, share in zip(flows, self._shares(flows), strict=True):
            if share.speed != flow.speed:  # unchanged speeds keep their piece: rounding never depends on bystanders
                self._advance(flow, now, last=False)
                self._go(flow, share, now)
        self._arm(min([flow.finish_ns for flow in flows], default=NEVER_NS))

    def _go(self, flow: Flow, share: Share, now: int) -> None:
        flow.speed, flow.limit = share.speed, share.limit
        flow.finish_ns = now + math.ceil(flow.left_ns / share.speed)

    def _shares(self, flows: Sequence[Flow]) -> list[Share]:
        """Share links out; the same transfers meet again and again."""
        key = tuple([flow.transfer for flow in flows])
        found = self._known.get(key)
        if found is None:
            found = self._solved([flow.demand for flow in flows])
            if len(self._known) < _MOST_KNOWN:
                self._known[key] = found
        return found

    def _solved(self, demands: Sequence[Demand]) -> list[Share]:
        links = {link for wanted in demands for link, _, _ in wanted.shares}
        return fair_shares(demands, {link: self.program.links[link].bytes_per_s / 1e9 for link in links})

    def _component(self) -> list[Flow]:
        seen_links, stack, found = set(self._touched), list(self._touched), dict[int, None]()
        self._touched.clear()
        while stack:
            for order in self._on_link.get(stack.pop(), ()):
                if order not in found:
                    found[order] = None
                    for link, _, _ in self._flows[order].demand.shares:
                        if link not in seen_links:
                            seen_links.add(link)
                            stack.append(link)
        return [self._flows[order] for order in sorted(found)]

    def _advance(self, flow: Flow, now: int, *, last: bool) -> None:
        if flow.speed and now > flow.since_ns:
            flow.left_ns = max(0.0, flow.left_ns - flow.speed * (now - flow.since_ns))
            rate = flow.speed / flow.stream_ns
            self.recorder.flows.append((flow.transfer, flow.since_ns, now, rate, last, flow.limit))
        flow.since_ns = now

    def _arm(self, time_ns: int) -> None:
        if time_ns < self._armed_ns:
            self._armed_ns = time_ns
            timeout = self.env.timeout(time_ns - int(self.env.now))
            assert timeout.callbacks is not None  # a fresh event always has a list
            timeout.callbacks.append(self._finish)

    def _finish(self, event: Event) -> None:
        now = int(self.env.now)
        if now < self._armed_ns:
            return  # another one ended earlier
        self._armed_ns = NEVER_NS
        for flow in [f for f in self._flows.values() if f.finish_ns <= now and f.speed]:
            self._advance(flow, now, last=True)
            del self._flows[flow.order]
            left = False
            for link, _, _ in flow.demand.shares:
                others = self._on_link[link]
                del others[flow.order]
                left = left or bool(others)
            if left:
                self._mark(flow.demand)
            flow.done(now)
        if self._flows:
            self._arm(min([flow.finish_ns for flow in self._flows.values() if flow.speed], default=NEVER_NS))
