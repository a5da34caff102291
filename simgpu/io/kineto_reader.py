"""PyTorch profiler (Kineto) traces: what their files say, of any age, with what they lack named."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.json_stream import TraceStream
from simgpu.io.trace_gaps import TraceGaps, event_gaps
from simgpu.metrics.kernel_class import is_communication, kernel_class
from simgpu.metrics.rank_trace import GpuEvent, RankTrace
from simgpu.metrics.trace_steps import step_basis

TRACE_ENDINGS: Final = (".json", ".json.gz", ".json.xz", ".trace", ".gz", ".xz")
_GPU: Final = {"kernel": "kernel", "gpu_memcpy": "copy", "memcpy": "copy", "gpu_memset": "copy", "memset": "copy"}
LAUNCH: Final = ("cuda_runtime", "runtime", "cuda_driver", "hip_runtime")
"""Categories of the CPU's calls that launch work."""
_RECORDED: Final = frozenset((*_GPU, *LAUNCH))
"""Categories that Kineto writes in one run behind all ops of the CPU: a file that was cut off lacks their ends."""

_FARTHEST_US: Final = 2**62 // 1000
"""Microseconds: begin and duration together fit the 64 bits of nanoseconds that Kineto counts in."""
_SHOWN: Final = 60  # characters of a value or a name
_OP_CLASSES: Final = frozenset(("gemm", "attention", "memory_bound", "recompute", "optimizer"))


def trace_files(paths: Sequence[Path]) -> list[Path]:
    """Return the trace files meant: files as given, and those in folders, by name.

    Parameters
    ----------
    paths : sequence of Path

    Returns
    -------
    list of Path

    Raises
    ------
    ScenarioError
        When a path is absent, or a folder holds no trace.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.is_file() and file.name.endswith(TRACE_ENDINGS))
            if not inside:
                raise _error(path, "is a folder without a trace", allowed=f"files ending in {', '.join(TRACE_ENDINGS)}")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise _error(path, "is not there")
    return found


def read_kineto(path: Path, *, take: Callable[[Mapping[str, Any]], None] | None = None) -> RankTrace:
    """Read one file of a PyTorch profiler.

    Kernels, copies and memsets of the GPU, the CPU calls that launched them, and ``ProfilerStep`` annotations. Older
    category names (``Kernel``, ``Memcpy``, ``Runtime``) are understood. A file that was cut off is read as far as it
    goes.

    Parameters
    ----------
    path : Path
    take : callable, optional
        Called with every event, for what else is to be gathered in the same pass.

    Returns
    -------
    RankTrace

    Raises
    ------
    ScenarioError
        When the file is no trace, or an event's time is no number of microseconds.
    """
    stream = TraceStream(path)
    device: list[dict[str, Any]] = []
    launches: dict[int, int] = {}
    steps: dict[str, tuple[int, int]] = {}
    on_gpu: dict[str, tuple[int, int]] = {}
    gaps = TraceGaps()
    untimed: list[Mapping[str, Any]] = []
    for event in stream:
        _check_times(path, event)
        if take is not None:
            take(event)
        category = str(event.get("cat", "")).lower()
        if event.get("ph") != "X":
            continue
        if not _timed(event):
            if category in _GPU:
                untimed.append(event)
            continue
        name = str(event.get("name", ""))
        if category in _RECORDED:
            gaps.until(_ns(event["ts"]) + _ns(event["dur"]))
        if category in _GPU:
            device.append(event)
            gaps.ran(_integer(_arguments(event).get("correlation")))
        elif category in LAUNCH:
            number = _arguments(event).get("correlation")
            if isinstance(number, int):
                launches[number] = _ns(event["ts"])
                gaps.launch(name, number)
        elif name.startswith("ProfilerStep") and category in ("user_annotation", "operator", "cpu_op", ""):
            start = _ns(event["ts"])
            steps.setdefault(name, (start, start + _ns(event["dur"])))
        elif name.startswith("ProfilerStep") and category == "gpu_user_annotation":  # one for every stream
            start, before = _ns(event["ts"]), on_gpu.get(name)
            end = start + _ns(event["dur"])
            on_gpu[name] = (start, end) if before is None else (min(start, before[0]), max(end, before[1]))
    device, others = _one_gpu(device)
    info = stream.header.get("distributedInfo")
    described = info if isinstance(info, dict) else {}
    events = sorted((_gpu_event(event, launches) for event in device), key=lambda found: (found.start_ns, found.end_ns))
    trace = RankTrace(
        source=path.name,
        rank=_integer(described.get("rank")),
        world_size=_integer(described.get("world_size")),
        device=_device(stream.header.get("deviceProperties"), device),
        events=tuple(events),
        steps=_ordered(steps),
        gpu_steps=_ordered(on_gpu),
        groups=dict(_groups(described.get("pg_config"))),
    )
    own = (
        *_warnings(stream, trace, described, untimed),
        *gaps.told(trace.steps),
        *event_gaps(trace.events, trace.steps),
    )
    return replace(trace, warnings=(*own, *others))


def _ordered(steps: Mapping[str, tuple[int, int]]) -> tuple[tuple[str, int, int], ...]:
    return tuple((name, begin, end) for begin, end, name in sorted((b, e, name) for name, (b, e) in steps.items()))


def _one_gpu(events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Keep the events of the GPU that has most: a process may drive several, whose streams have the same numbers."""
    counts = Counter(_integer(_arguments(event).get("device")) for event in events)
    if len(counts) < 2 or None in counts:
        return events, ()
    kept, _ = counts.most_common(1)[0]
    left = ", ".join(str(gpu) for gpu in sorted(gpu for gpu in counts if gpu is not None and gpu != kept))
    mine = [event for event in events if _arguments(event).get("device") == kept]
    return mine, (f"it holds the kernels of several GPUs; those of GPU {left} are left out: a file is one rank's",)


def _gpu_event(event: Mapping[str, Any], launches: Mapping[int, int]) -> GpuEvent:
    name, arguments = str(event.get("name", "")), _arguments(event)
    kind = _GPU[str(event["cat"]).lower()]
    if kind == "kernel" and is_communication(name):
        kind = "collective"
    elif kind == "copy" and ("HtoD" in name or "DtoH" in name or "Host" in name):
        kind = "host_copy"
    start = _ns(event["ts"])
    stated = str(arguments.get("class", ""))  # written by simgpu's own export
    stream, correlation = _integer(arguments.get("stream")), _integer(arguments.get("correlation"))
    source, target = arguments.get("Src Rank"), arguments.get("Dst Rank")
    return GpuEvent(
        name=name,
        kind=kind,
        stream=-1 if stream is None else stream,
        start_ns=start,
        end_ns=start + _ns(event["dur"]),
        launched_ns=None if correlation is None else launches.get(correlation),
        op_class=stated if stated in _OP_CLASSES else kernel_class(name) if kind == "kernel" else "",
        collective=str(arguments.get("Collective name", "")) if kind == "collective" else "",
        group=str(arguments.get("Process Group Name", "")),
        ranks=str(arguments.get("Process Group Ranks", "")),
        peer="" if source is None or target is None else f"{source}->{target}",
    )


def _timed(event: Mapping[str, Any]) -> bool:
    return all(isinstance(event.get(key), int | float | Decimal) for key in ("ts", "dur")) and event["dur"] >= 0


def _check_times(path: Path, event: Mapping[str, Any]) -> None:
    """Refuse times that no clock gives: they would overflow, or be the whole step."""
    if event.get("ph") != "X":
        return
    for key in ("ts", "dur"):
        value = event.get(key)
        if isinstance(value, int | float | Decimal) and not -_FARTHEST_US <= value <= _FARTHEST_US:
            text = str(value)
            raise ScenarioError(
                [
                    Issue(
                        field=f"{key} of the event {str(event.get('name', ''))[:_SHOWN]!r}",
                        value=text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...",
                        problem="is no time",
                        allowed=f"microseconds, up to {_FARTHEST_US}",
                        file=str(path),
                    )
                ]
            )


def _ns(microseconds: int | float | Decimal) -> int:
    """Nanoseconds, exact: the decimals of a timestamp in the trillions do not fit a float."""
    return round(microseconds * 1000)


def _arguments(event: Mapping[str, Any]) -> Mapping[str, Any]:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _device(properties: Any, events: Sequence[Mapping[str, Any]]) -> str:
    listed = [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
    used = _integer(_arguments(events[0]).get("device")) if events else None
    own = [entry for entry in listed if entry.get("id") == used] or listed
    return str(own[0].get("name", "")) if own else ""


def _groups(config: Any) -> Iterator[tuple[str, str]]:
    for entry in config if isinstance(config, list) else []:
        if isinstance(entry, dict) and "pg_name" in entry:
            yield str(entry["pg_name"]), str(entry.get("pg_desc", ""))


def _warnings(
    stream: TraceStream, trace: RankTrace, described: Mapping[str, Any], untimed: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    if stream.fault:
        yield f"truncated: {stream.fault}"
    if untimed:
        yield _without_times(untimed, len(trace.events))
    elif not trace.events:
        yield "there is no GPU event in it (CPU only, or the profiler ran without CUDA activities)"
    if trace.events and all(event.launched_ns is None for event in trace.events):
        yield "launches are missing, so idle time cannot be told from waiting for the CPU"
    if basis := step_basis(trace):
        yield basis
    if "rank" not in described:
        yield "there is no distributedInfo with a rank"


def _without_times(untimed: Sequence[Mapping[str, Any]], timed: int) -> str:
    """Say how many events of the GPU have no time, and what the first of them has in its place."""
    first = untimed[0]
    key = next(key for key in ("ts", "dur") if not isinstance(first.get(key), int | float | Decimal) or first[key] < 0)
    number = f"{len(untimed):,} of the {len(untimed) + timed:,} events of the GPU"
    value = json.dumps(first.get(key), default=str)[:_SHOWN] if key in first else "missing"
    name = str(first.get("name", ""))[:_SHOWN]
    return f"{number} have no time and are left out: {key} of {name!r} is {value}, not a number of microseconds"


def _error(path: Path, problem: str, *, allowed: str | None = None) -> ScenarioError:
    return ScenarioError([Issue(field="", problem=problem, allowed=allowed, file=str(path))])
