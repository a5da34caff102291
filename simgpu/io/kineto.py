"""A step as the PyTorch profiler would have written it: one Kineto file per rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.costs.host_copy import PAGEABLE, TO_GPU, TO_HOST, UPDATE
from simgpu.io.chrome_trace import event, microseconds, quoted, write_trace
from simgpu.metrics.trace_slices import Slice, trace_slices
from simgpu.program import COMPUTE, Program, TransferKey
from simgpu.timeline import Timeline

_COMPUTE_STREAM, _FIRST_OTHER_STREAM, _STREAM_STEP = 7, 20, 4  # as CUPTI numbers them in real traces
_CPU_PID: Final = 100_000  # apart from every GPU's number
_FIRST_CORRELATION: Final = 1 << 20
"""As high as in real traces: Holistic Trace Analysis keeps row numbers in the integer type that correlations need."""
_COLLECTIVES: Final = {  # c10d's name, NCCL's name in the kernel
    "all_reduce": ("allreduce", "AllReduce_Sum_u8_{}_LL"),
    "all_gather": ("_allgather_base", "AllGather_RING_LL"),
    "reduce_scatter": ("_reduce_scatter_base", "ReduceScatter_Sum_u8_RING_LL"),
    "all_to_all": ("all_to_all", "SendRecv"),
    "broadcast": ("broadcast", "Broadcast_RING_LL"),
    "reduce": ("reduce", "Reduce_Sum_u8_RING_LL"),
}
_COPIES: Final = {
    TO_GPU: "Memcpy HtoD (Pinned -> Device)",
    TO_HOST: "Memcpy DtoH (Device -> Pinned)",
    TO_GPU + PAGEABLE: "Memcpy HtoD (Pageable -> Device)",
    TO_HOST + PAGEABLE: "Memcpy DtoH (Device -> Pageable)",
}


def write_kineto(folder: Path, timeline: Timeline, *, waits: bool = False, gpus_per_node: int = 8) -> list[Path]:
    """Write one file per rank of the Program, ``rank0.json.gz`` and so on.

    Kernels, copies and NCCL kernels stand on CUDA streams with their launches on a CPU thread, within one
    ``ProfilerStep``. Payloads are counted in bytes (``dtype`` Byte): a simulated message has no element type.

    Parameters
    ----------
    folder : Path
        Exists.
    timeline : Timeline
        Of a Program in which no rank stands for several, where every rank's own file is wanted.
    waits : bool
        Show NCCL kernels as a profiler does, spinning until their partners have come. Otherwise they begin when
        bytes begin to move, so that a reader's "exposed communication" leaves waiting out.
    gpus_per_node : int
        Neighbouring ranks whose GPUs are numbered together.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    OutputError
        When one cannot be written.
    """
    return [
        _write_rank(folder, timeline, index, waits=waits, gpus_per_node=gpus_per_node)
        for index in range(len(timeline.program.ranks))
    ]


def _write_rank(folder: Path, timeline: Timeline, index: int, *, waits: bool, gpus_per_node: int) -> Path:
    program = timeline.program
    rank = program.ranks[index].members[0]
    device = rank % gpus_per_node
    name = program.roles[program.ranks[index].role].device
    header: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": device, "name": name}],
        "distributedInfo": _distributed(program, index, rank),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "traceName": f"simulated by simgpu, rank {rank}",
    }
    path = folder / f"rank{rank}.json.gz"
    write_trace(path, header, _events(timeline, index, rank, device, waits=waits))
    return path


def _distributed(program: Program, index: int, rank: int) -> dict[str, Any]:
    groups = [
        {
            "pg_name": str(group),
            "pg_desc": communicator,
            "backend_config": "cuda:nccl",
            "pg_size": len(program.groups[group].members),
            "ranks": _members(program, group),
        }
        for communicator, group in program.ranks[index].groups.items()
        if len(program.groups[group].members) > 1
    ]
    info = {"backend": "nccl", "rank": rank, "world_size": program.world_size}
    return {**info, "pg_count": len(groups), "pg_config": groups}


def _members(program: Program, group: int) -> list[int]:
    """Ranks of a group by position; none where classes stand for several ranks, whose positions are not known."""
    classes = [program.ranks[member] for member in program.groups[group].members]
    return [found.members[0] for found in classes] if all(found.count == 1 for found in classes) else []


def _events(timeline: Timeline, index: int, rank: int, device: int, *, waits: bool) -> Iterator[str]:
    begin, end = timeline.window_ns
    cpu = _CPU_PID + rank
    pieces = list(trace_slices(timeline, index))
    streams = list(dict.fromkeys([COMPUTE, *(piece.stream for piece in pieces)]))
    numbers = {
        name: _COMPUTE_STREAM if name == COMPUTE else _FIRST_OTHER_STREAM + _STREAM_STEP * (place - 1)
        for place, name in enumerate(streams)
    }
    # metadata first: readers take row 0 for no launch
    yield event("M", {"name": quoted("process_name")}, pid=cpu, args={"name": "python"})
    yield event("M", {"name": quoted("process_name")}, pid=device, args={"name": f"GPU {device}"})
    for name, number in numbers.items():
        yield event(
            "M", {"name": quoted("thread_name")}, pid=device, tid=number, args={"name": f"stream {number} {name}"}
        )
        yield event(
            "M", {"name": quoted("thread_name")}, pid=cpu, tid=cpu + number, args={"name": f"launches of {name}"}
        )
    step = {"ts": microseconds(0), "dur": microseconds(end - begin)}
    yield event(
        "X", {"name": quoted(f"ProfilerStep#{timeline.step}"), "cat": '"user_annotation"', **step}, pid=cpu, tid=cpu
    )
    correlation = _FIRST_CORRELATION
    for stream in streams:
        launched = 0
        own = [piece for piece in pieces if piece.stream == stream]
        for place, piece in enumerate(own):
            correlation += 1
            start = min(piece.ready_ns, piece.start_ns) if waits and piece.communicator else piece.start_ns
            launched = max(launched, min(piece.launched_ns, start))
            room = min(_later_launch(own, place), start) - launched
            where = (device, numbers[stream], cpu, cpu + numbers[stream])
            if piece.collective and piece.collective not in _COLLECTIVES and piece.collective not in _COPIES:
                yield _cpu_work(piece, cpu, cpu + numbers[stream], start)
            else:
                yield from _launch_and_kernel(timeline, index, piece, where, correlation, launched, room, start)


def _later_launch(own: Sequence[Slice], place: int) -> int:
    return own[place + 1].launched_ns if place + 1 < len(own) else own[place].end_ns


def _launch_and_kernel(
    timeline: Timeline,
    index: int,
    piece: Slice,
    where: tuple[int, int, int, int],
    correlation: int,
    launched: int,
    room: int,
    start: int,
) -> Iterator[str]:
    device, stream, cpu, thread = where
    ids = {"External id": correlation, "correlation": correlation}
    call = "cudaMemcpyAsync" if _category(piece) == "gpu_memcpy" else "cudaLaunchKernel"
    times = {"ts": microseconds(launched), "dur": microseconds(max(0, min(room, 1000)))}
    yield event("X", {"name": quoted(call), "cat": '"cuda_runtime"', **times}, pid=cpu, tid=thread, args=ids)
    flow = {"name": '"ac2g"', "cat": '"ac2g"', "id": str(correlation)}
    yield event("s", {"ts": microseconds(launched), **flow}, pid=cpu, tid=thread)
    yield event("f", {"ts": microseconds(start), "bp": '"e"', **flow}, pid=device, tid=stream)
    args = {"device": device, "context": 1, "stream": stream, **ids, **_details(timeline.program, index, piece)}
    times = {"ts": microseconds(start), "dur": microseconds(piece.end_ns - start)}
    category = quoted(_category(piece))
    name = quoted(_name(timeline.program, index, piece))
    yield event("X", {"name": name, "cat": category, **times}, pid=device, tid=stream, args=args)


def _cpu_work(piece: Slice, cpu: int, thread: int, start: int) -> str:
    """Return the optimizer step on the CPU, or a read from the SSD: no kernel."""
    times = {"ts": microseconds(start), "dur": microseconds(piece.end_ns - start)}
    name = "CPUAdam" if piece.collective == UPDATE else piece.collective
    return event(
        "X", {"name": quoted(name), "cat": '"cpu_op"', **times}, pid=cpu, tid=thread, args={"bytes": piece.bytes}
    )


def _category(piece: Slice) -> str:
    return "gpu_memcpy" if piece.kind == "copy" or piece.collective in _COPIES else "kernel"


def _name(program: Program, index: int, piece: Slice) -> str:
    """Name a communication as NCCL does, for readers go by names; a kernel as the model does."""
    if piece.kind == "copy":
        return "Memcpy DtoD (Device -> Device)"
    if piece.collective in _COPIES:
        return _COPIES[piece.collective]
    if not piece.communicator:
        return f"{piece.unit}.{piece.name}" if piece.unit else piece.name
    if not piece.collective:
        return "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    cost = program.transfers[piece.group, TransferKey(kind=piece.collective, bytes=piece.bytes)]
    algorithm = "TREE" if cost.algorithm.startswith("tree") else "RING"
    return f"ncclDevKernel_{_COLLECTIVES[piece.collective][1].format(algorithm)}(ncclDevKernelArgsStorage<4096ul>)"


def _details(program: Program, index: int, piece: Slice) -> dict[str, Any]:
    """Arguments of a kernel, with the names that Kineto gives them."""
    duration = piece.end_ns - piece.start_ns
    if _category(piece) == "gpu_memcpy":
        return {"bytes": piece.bytes, "memory bandwidth (GB/s)": round(piece.bytes / duration, 3)}
    described: dict[str, Any] = {"phase": piece.phase, "microbatch": piece.microbatch}
    if not piece.communicator:
        return {**described, "unit": piece.unit, "class": piece.op_class, "flops": piece.flops, "bytes": piece.bytes}
    size = len(program.groups[piece.group].members)
    members = _members(program, piece.group)
    described |= {
        "Group size": size,
        "dtype": "Byte",
        "Process Group Name": str(piece.group),
        "Process Group Description": piece.communicator,
        "Process Group Ranks": str(members),
        "Seq": piece.sequence,
    }
    if piece.collective:
        share = piece.bytes // size
        into = share if piece.collective == "all_gather" else piece.bytes
        out = share if piece.collective == "reduce_scatter" else piece.bytes
        return {
            **described,
            "Collective name": _COLLECTIVES[piece.collective][0],
            "In msg nelems": into,
            "Out msg nelems": out,
        }
    own = program.roles[program.ranks[index].role].position[piece.communicator]
    ends = (own, piece.peer) if piece.kind == "send" else (piece.peer, own)
    source, target = (members[end] if members else end for end in ends)
    counts = {"In msg nelems": piece.bytes, "Out msg nelems": piece.bytes}
    return {**described, "Collective name": piece.kind, **counts, "Src Rank": source, "Dst Rank": target}
