"""Reports made by hand, in the shape that metrics makes them, for tests of views alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simgpu.metrics.activity import CLASSES, Bar
from simgpu.metrics.report import RankReport, Report, TransferReport

MS = 1_000_000
GIB = 2**30


def one_f_one_b(stage: int, stages: int, microbatches: int) -> list[tuple[str, int]]:
    warm = min(stages - 1 - stage, microbatches)
    order = [("forward", i) for i in range(warm)]
    for i in range(microbatches - warm):
        order += [("forward", warm + i), ("backward", i)]
    return order + [("backward", i) for i in range(microbatches - warm, microbatches)]


def pipeline(
    name: str = "1F1B, P=4",
    *,
    stages: int = 4,
    microbatches: int = 8,
    kernels: int = 1,
    send_ns: int = MS // 2,
    forward_ns: int = 10 * MS,
    capacity_bytes: int = 80 * GIB,
) -> Report:
    """A 1F1B pipeline played by hand: each pass in ``kernels`` bars, a send between stages, an optimizer at the end."""
    done: dict[tuple[int, str, int], int] = {}
    clock = [0] * stages
    bars: list[list[Bar]] = [[] for _ in range(stages)]
    todo = [one_f_one_b(s, stages, microbatches) for s in range(stages)]
    curves = [[(0, 20 * GIB)] for _ in range(stages)]
    while any(todo):
        for s in range(stages):
            while todo[s]:
                phase, mb = todo[s][0]
                source = s - 1 if phase == "forward" else s + 1
                sent = done.get((source, phase, mb)) if 0 <= source < stages else 0
                if sent is None:
                    break
                todo[s].pop(0)
                arrival = sent + send_ns if 0 <= source < stages else 0
                start = max(clock[s], arrival)
                before = clock[s]
                if start > clock[s]:
                    exposed = min(send_ns, start - clock[s])
                    parts = (("bubble", start - clock[s] - exposed), ("exposed.pp", exposed))
                    bars[s].append(
                        Bar(
                            rank=s,
                            stream="compute",
                            start_ns=clock[s],
                            end_ns=start,
                            kind="wait",
                            name="wait for recv",
                            accounting=tuple(p for p in parts if p[1]),
                            microbatch=mb,
                            axis="pp",
                            reason=f"rank {source} had not sent microbatch {mb}",
                        )
                    )
                if 0 <= source < stages:
                    if sent > before:
                        bars[s].append(
                            Bar(
                                rank=s,
                                stream="pp",
                                start_ns=before,
                                end_ns=sent,
                                kind="rendezvous",
                                name="recv",
                                axis="pp",
                            )
                        )
                    bars[s].append(
                        Bar(
                            rank=s,
                            stream="pp",
                            start_ns=sent,
                            end_ns=sent + send_ns,
                            kind="transfer",
                            name="recv",
                            axis="pp",
                            bytes=33_554_432,
                            microbatch=mb,
                            reason="p2p over NVLink",
                        )
                    )
                length = forward_ns * (1 if phase == "forward" else 2)
                for k in range(kernels):
                    low, high = start + length * k // kernels, start + length * (k + 1) // kernels
                    bars[s].append(
                        Bar(
                            rank=s,
                            stream="compute",
                            start_ns=low,
                            end_ns=high,
                            kind="compute",
                            name=f"{phase} {mb}",
                            accounting=(
                                ("compute.gemm", gemm := (high - low) * 3 // 4),
                                ("compute.memory_bound", high - low - gemm),
                            ),
                            phase=phase,
                            microbatch=mb,
                        )
                    )
                clock[s] = start + length
                done[s, phase, mb] = clock[s]
                held = curves[s][-1][1] + (6 * GIB if phase == "forward" else -6 * GIB)
                curves[s].append((clock[s], held))
    step = max(clock) + 5 * MS
    for s in range(stages):
        if clock[s] + 5 * MS < step:
            bars[s].append(
                Bar(
                    rank=s,
                    stream="compute",
                    start_ns=clock[s] + 5 * MS,
                    end_ns=step,
                    kind="wait",
                    name="no work left",
                    accounting=(("bubble", step - clock[s] - 5 * MS),),
                    reason="no work left in the step",
                )
            )
        bars[s].append(
            Bar(
                rank=s,
                stream="compute",
                start_ns=clock[s],
                end_ns=clock[s] + 5 * MS,
                kind="compute",
                name="adamw",
                accounting=(("compute.optimizer", 5 * MS),),
                phase="optimizer",
            )
        )
        bars[s].sort(key=lambda bar: (bar.stream, bar.start_ns))
    ranks = [rank_report(s, bars[s], step, curves[s], capacity_bytes, stages=(s,)) for s in range(stages)]
    return report(name, ranks, step, gpus=stages, axis="pp")


def ddp(
    name: str = "8 GPUs with DDP",
    *,
    gpus: int = 8,
    buckets: int = 12,
    backward_ns: int = 120 * MS,
    reduce_ns: int = 11 * MS,
    held_bytes: int = 60 * GIB,
    capacity_bytes: int = 80 * GIB,
    straggler: bool = False,
) -> Report:
    """One micro-batch; each bucket is reduced while the next gradients are computed, the last one is exposed."""
    forward = backward_ns // 2
    bars = [
        Bar(
            rank=0,
            stream="compute",
            start_ns=0,
            end_ns=forward,
            kind="compute",
            name="forward 0",
            phase="forward",
            microbatch=0,
            accounting=(("compute.gemm", forward // 2), ("compute.attention", forward - forward // 2)),
        )
    ]
    free = 0
    for b in range(buckets):
        low, high = forward + backward_ns * b // buckets, forward + backward_ns * (b + 1) // buckets
        bars.append(
            Bar(
                rank=0,
                stream="compute",
                start_ns=low,
                end_ns=high,
                kind="compute",
                name="backward 0",
                phase="backward",
                microbatch=0,
                accounting=(("compute.gemm", high - low),),
            )
        )
        start = max(high, free)
        late = MS if straggler else 0
        if late:
            bars.append(
                Bar(
                    rank=0,
                    stream="dp",
                    start_ns=start,
                    end_ns=start + late,
                    kind="rendezvous",
                    name="all_reduce",
                    axis="dp",
                    reason="rank 3 arrived last",
                )
            )
        free = start + late + reduce_ns
        bars.append(
            Bar(
                rank=0,
                stream="dp",
                start_ns=start + late,
                end_ns=free,
                kind="transfer",
                name="all_reduce",
                axis="dp",
                bytes=104_857_600,
                reason="ring, limited by node0/gpu0->nvswitch",
            )
        )
    end = forward + backward_ns
    waits = (("straggler", MS), ("exposed.dp", free - end - MS)) if straggler else (("exposed.dp", free - end),)
    bars.append(
        Bar(
            rank=0,
            stream="compute",
            start_ns=end,
            end_ns=free,
            kind="wait",
            name="wait for all_reduce",
            accounting=waits,
            axis="dp",
            reason="last bucket of gradients",
        )
    )
    step = free + 8 * MS
    bars.append(
        Bar(
            rank=0,
            stream="compute",
            start_ns=free,
            end_ns=step,
            kind="compute",
            name="adamw",
            phase="optimizer",
            accounting=(("compute.optimizer", step - free),),
        )
    )
    curve = [(0, held_bytes * 2 // 3), (forward, held_bytes), (forward + backward_ns, held_bytes * 3 // 4)]
    bars.sort(key=lambda bar: (bar.stream, bar.start_ns))
    rank = rank_report(0, bars, step, curve, capacity_bytes, members=tuple(range(gpus)))
    return report(name, [rank], step, gpus=gpus, axis="dp")


def rank_report(
    rank: int,
    bars: Iterable[Bar],
    step_ns: int,
    curve: Sequence[tuple[int, int]],
    capacity_bytes: int,
    *,
    members: tuple[int, ...] = (),
    stages: tuple[int, ...] = (0,),
) -> RankReport:
    bars = tuple(bars)
    breakdown = dict.fromkeys(CLASSES, 0)
    for bar in bars:
        for key, length in bar.accounting:
            breakdown[key] += length
    assert sum(breakdown.values()) == step_ns, (rank, breakdown, step_ns)
    peak_time, peak = max(curve, key=lambda point: (point[1], -point[0]))
    return RankReport(
        rank=rank,
        members=members or (rank,),
        stages=stages,
        device="A100-SXM4-80GB",
        capacity_bytes=capacity_bytes,
        breakdown_ns=breakdown,
        bars=bars,
        memory_curve=tuple(curve),
        peak_memory_bytes=peak,
        peak_time_ns=peak_time,
        memory_at_peak_bytes={
            "weights": peak // 4,
            "optimizer": peak // 4,
            "gradients": peak // 8,
            "activations": peak - peak // 4 * 2 - peak // 8,
        },
    )


def report(name: str, ranks: Sequence[RankReport], step_ns: int, *, gpus: int, axis: str) -> Report:
    fullest = max(ranks, key=lambda rank: rank.peak_memory_bytes)
    breakdown = {key: sum(rank.breakdown_ns[key] for rank in ranks) / len(ranks) for key in CLASSES}
    fits = fullest.peak_memory_bytes <= fullest.capacity_bytes
    transfer = TransferReport(
        rank=0,
        axis=axis,
        kind="all_reduce" if axis == "dp" else "recv",
        bytes=104_857_600,
        count=12,
        mean_ns=11e6,
        busbw_bytes_per_s=231e9,
        latency_share=0.1,
        link_use=1.0,
        crosses_network=False,
        algorithm="ring",
        source="measured",
        bottleneck="node0/gpu0->nvswitch",
    )
    return Report(
        name=name,
        model="llama-2-7b",
        gpus=gpus,
        step_time_ns=step_ns,
        tokens_per_s=262144 / step_ns * 1e9,
        tokens_per_s_per_gpu=262144 / step_ns * 1e9 / gpus,
        mfu=0.512,
        hfu=0.512,
        peak_flops_used=312e12,
        bubble_fraction=breakdown["bubble"] / step_ns,
        bubble_over_ideal=0.0,
        ideal_bubble_fraction=0.0,
        overlap_ratio=0.9,
        breakdown_ns=breakdown,
        ranks=tuple(ranks),
        transfers=(transfer,),
        peak_memory_bytes=fullest.peak_memory_bytes,
        memory_by_category_bytes=fullest.memory_at_peak_bytes,
        capacity_bytes=fullest.capacity_bytes,
        fits=fits,
        verdict="" if fits else "OUT OF MEMORY on rank 0 at 60 ms: 100.0 of 80.0 GiB (activations 37.5)",
        warnings=() if fits else ("does not fit: the timeline shows what would happen if it did",),
    )


def four_variants() -> list[Report]:
    return [
        pipeline("1F1B, P=4, M=8"),
        pipeline("1F1B, P=4, M=4", microbatches=4),
        ddp("4 GPUs with DDP", gpus=4, straggler=True),
        ddp("8 GPUs with DDP <script>alert('x')</script> & <b>bold</b>", held_bytes=100 * GIB),
    ]
