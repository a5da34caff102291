"""A step as one Perfetto (Chrome JSON) file: a process per class of ranks, a track per stream, counters, arrows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from simgpu.io.chrome_trace import event, microseconds, quoted, write_trace
from simgpu.metrics.activity import Bar
from simgpu.metrics.link_rates import link_rates
from simgpu.metrics.memory_by_category import memory_by_category
from simgpu.metrics.report import RankReport, Report
from simgpu.metrics.trace_slices import Slice, trace_slices
from simgpu.timeline import Timeline
from simgpu.units import GIB

_LINK_COUNTERS: Final = 64  # the busiest; more tracks than that hide each other


def write_perfetto(path: Path, report: Report) -> int:
    """Write the reported step for ui.perfetto.dev or chrome://tracing.

    Bars are what they are in the Gantt, waits with their reason among them; the kernels of a bar nest in it. Arrows
    lead from a send to its receive. Memory is a counter by category, each busy link one of its rate.

    Parameters
    ----------
    path : Path
        Gzipped when it ends in ``.gz``.
    report : Report
        With its Timeline.

    Returns
    -------
    int
        Events written.

    Raises
    ------
    OutputError
        When the file cannot be written.
    ValueError
        When the report has no Timeline.
    """
    if report.timeline is None:
        raise ValueError("a report without its timeline cannot be exported")
    header = {
        "displayTimeUnit": "ms",
        "otherData": {
            "title": report.name,
            "model": report.model,
            "gpus": report.gpus,
            "step_time_ns": report.step_time_ns,
            "source": "simulated by simgpu",
        },
    }
    return write_trace(path, header, _events(report, report.timeline))


def _events(report: Report, timeline: Timeline) -> Iterator[str]:
    for index, rank in enumerate(report.ranks):
        yield from _metadata(index + 1, _title(rank), index)
    yield from _metadata(len(report.ranks) + 1, "links", len(report.ranks))
    arrows = _Arrows()
    for index, rank in enumerate(report.ranks):
        yield from _rank_events(index, rank, timeline, arrows)
    yield from _link_events(len(report.ranks) + 1, timeline)


def _rank_events(index: int, rank: RankReport, timeline: Timeline, arrows: _Arrows) -> Iterator[str]:
    pid = index + 1
    streams = list(dict.fromkeys(bar.stream for bar in rank.bars))
    tracks = {stream: number for number, stream in enumerate(streams, start=1)}  # 0 would be replaced by the pid
    for stream, tid in tracks.items():
        yield event("M", {"name": quoted("thread_name")}, pid=pid, tid=tid, args={"name": stream})
        yield event("M", {"name": quoted("thread_sort_index")}, pid=pid, tid=tid, args={"sort_index": tid})
    for bar in rank.bars:
        yield _bar_event(pid, tracks[bar.stream], bar)
    for piece in trace_slices(timeline, index):
        if piece.op_class:
            yield _kernel_event(pid, tracks[piece.stream], piece)
        elif piece.tag:
            yield from arrows.of(pid, tracks[piece.stream], piece)
    for time_ns, category, held in memory_by_category(timeline, index):
        amount = {category: round(held / GIB, 6)}
        yield event("C", {"name": quoted("memory GiB"), "ts": microseconds(time_ns)}, pid=pid, args=amount)


def _metadata(pid: int, title: str, order: int) -> Iterator[str]:
    yield event("M", {"name": quoted("process_name")}, pid=pid, args={"name": title})
    yield event("M", {"name": quoted("process_sort_index")}, pid=pid, args={"sort_index": order})


def _title(rank: RankReport) -> str:
    stages = f"stage {', '.join(map(str, rank.stages))} · " if rank.stages else ""
    alike = f" (and {rank.count - 1} alike)" if rank.count > 1 else ""
    return f"{stages}rank {rank.rank}{alike}"


def _bar_event(pid: int, tid: int, bar: Bar) -> str:
    args: dict[str, object] = {"kind": bar.kind}
    if bar.accounting:
        args["classes_us"] = {name: duration / 1000 for name, duration in bar.accounting}
    if bar.microbatch >= 0:
        args["microbatch"] = bar.microbatch
    args |= {key: value for key in ("phase", "axis", "bytes", "reason") if (value := getattr(bar, key))}
    name = bar.name if bar.kind in ("compute", "transfer") else f"wait: {bar.name}"
    times = {"ts": microseconds(bar.start_ns), "dur": microseconds(bar.duration_ns)}
    return event("X", {"name": quoted(name), "cat": quoted(bar.kind), **times}, pid=pid, tid=tid, args=args)


def _kernel_event(pid: int, tid: int, piece: Slice) -> str:
    duration = piece.end_ns - piece.start_ns
    args: dict[str, object] = {"class": piece.op_class}
    if piece.unit:
        args["unit"] = piece.unit
    if piece.flops:
        args |= {"flops": piece.flops, "TFLOP/s": round(piece.flops / duration / 1000, 3)}
    if piece.bytes:
        args |= {"bytes": piece.bytes, "GB/s": round(piece.bytes / duration, 3)}
    times = {"ts": microseconds(piece.start_ns), "dur": microseconds(duration)}
    return event("X", {"name": quoted(piece.name), "cat": quoted("kernel"), **times}, pid=pid, tid=tid, args=args)


class _Arrows:
    """Numbers for the flows between sends and receives: both sides of a message name the same one."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str, int], int] = {}

    def of(self, pid: int, tid: int, piece: Slice) -> Iterator[str]:
        number = self._numbers.setdefault((piece.group, piece.tag, piece.end_ns), len(self._numbers) + 1)
        begins = piece.kind == "send"
        fields = {"ts": microseconds(piece.start_ns), "id": str(number), "cat": quoted("message")}
        if not begins:
            fields |= {"bp": quoted("e")}
        yield event("s" if begins else "f", {"name": quoted("message"), **fields}, pid=pid, tid=tid)


def _link_events(pid: int, timeline: Timeline) -> Iterator[str]:
    rates = link_rates(timeline)
    carried = {link: float((rate[:-1] * (times[1:] - times[:-1])).sum()) for link, (times, rate) in rates.items()}
    busiest = sorted(carried, key=lambda link: -carried[link])[:_LINK_COUNTERS]
    for link in sorted(busiest):
        name = quoted(timeline.program.links[link].name)
        for time_ns, rate in zip(rates[link][0].tolist(), rates[link][1].tolist(), strict=True):
            yield event(
                "C", {"name": name, "ts": microseconds(time_ns)}, pid=pid, args={"GB/s": round(rate / 1000000000.0, 6)}
            )
