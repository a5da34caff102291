"""A step with as many bars as asked for."""

from dataclasses import replace

import numpy as np

from simgpu.metrics.activity import Bar
from simgpu.metrics.critical_link import EVENT, Link
from simgpu.metrics.critical_path import CriticalPath
from simgpu.metrics.releases import REASONS
from simgpu.view.released import Released
from tests.view.reports import pipeline

RANKS = 16


def many_bars(count, *, seed=1):
    """Sixteen ranks of kernels, waits and transfers, too short to see at full width."""
    base = pipeline()
    steps = count // RANKS // 3
    random = np.random.default_rng(seed)
    works = random.integers(20_000, 60_000, size=steps).tolist()
    waits = random.integers(3_000, 15_000, size=steps).tolist()
    ranks = []
    for rank in range(RANKS):
        bars, moves, now = [], [], rank * 1_000
        for index, (work, wait) in enumerate(zip(works, waits, strict=True)):
            phase = "forward" if index // 40 % 2 == 0 else "backward"
            common = {"rank": rank, "stream": "compute", "microbatch": index // 40 % 64, "phase": phase}
            end = now + work
            name = f"{phase} block {index % 40}"
            done = (("compute.gemm", work),)
            bars.append(Bar(start_ns=now, end_ns=end, kind="compute", name=name, accounting=done, **common))
            now, end = end, end + wait
            lost = (("exposed.tp", wait),)
            bars.append(Bar(start_ns=now, end_ns=end, kind="wait", name="exposed.tp", accounting=lost, **common))
            transfer = common | {"stream": "tp", "kind": "transfer", "name": "<all_reduce>", "axis": "tp"}
            moves.append(Bar(start_ns=now, end_ns=end, bytes=1 << 20, **transfer))
            now = end
        ranks.append(replace(base.ranks[0], rank=rank, members=(rank,), stages=(rank,), bars=(*bars, *moves)))
    step_ns = max(bar.end_ns for rank in ranks for bar in rank.bars)
    return replace(
        base,
        name=f"{count:,} bars",
        ranks=tuple(ranks),
        step_time_ns=step_ns,
        critical_path=CriticalPath(links=tuple(_links(ranks[0].bars))),
    )


def many_releases(chart, reports):
    """Kernels released by the transfer before them, transfers and waits by the kernel: a Timeline would say that."""
    drawn = chart.drawn
    bar = np.full(len(drawn), -1)
    for rank in range(RANKS):
        lanes = [number for number, lane in enumerate(chart.lanes) if lane.group == chart.groups[0][rank]]
        mine = np.flatnonzero(np.isin(drawn.lane, lanes))
        for lane in lanes:
            here, others = mine[drawn.lane[mine] == lane], mine[drawn.lane[mine] != lane]
            before = np.searchsorted(drawn.end_ns[others], drawn.start_ns[here], side="right") - 1
            bar[here[before >= 0]] = others[before[before >= 0]]
    return Released(bar=bar, reason=np.full(len(drawn), REASONS.index(EVENT), np.int8))


def _links(bars):
    """A path that goes from rank 0's kernels to its transfers and back."""
    for bar in sorted((bar for bar in bars if bar.kind != "wait"), key=lambda bar: bar.start_ns):
        yield Link(
            rank=bar.rank, stream=bar.stream, name=bar.name, phase=bar.phase, microbatch=bar.microbatch,
            start_ns=bar.start_ns, end_ns=bar.end_ns, accounting=bar.accounting or (("exposed.tp", bar.duration_ns),),
        )  # fmt: skip
