"""What must hold on every scenario."""

from collections import Counter, defaultdict

import numpy as np
from hypothesis import HealthCheck, example, given, settings

from simgpu.api import play_case, simulate
from simgpu.metrics.json_report import runs_to_json
from simgpu.program import HOST, Alloc, Collective, Free, Record, Recv, Send, Wait
from tests.strategies import case_of, scenarios

# A stream that waits for compute while its own transfer, begun ahead of the clock, is still to be resident.
AHEAD = {
    "name": "ahead of the clock",
    "model": {
        "layers": 4,
        "hidden": 256,
        "heads": 8,
        "kv_heads": 8,
        "ffn": 512,
        "vocab": 1024,
        "tied_embeddings": True,
    },
    "cluster": {"topology": "dgx-a100", "nodes": 2, "gpus": 16},
    "training": {"sequence_length": 128, "micro_batch_size": 2, "gradient_accumulation": 2, "precision": "fp16"}
    | {"recompute": "selective", "frozen": 0.5},
    "parallel": {"tp": 2, "pp": 4, "dp": 2, "data_parallel": "hsdp", "sequence_parallel": True, "schedule": "zbh2"}
    | {"overlap_p2p": True, "scatter_gather_tensors_in_pipeline": True, "order": ["dp", "tp", "pp"]},
    "software": {"host_issue_ns": "20 us"},
    "fsdp": {"shard_size": 2},
}
few = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])


@few
@given(scenarios())
def test_classes_sum_to_the_step_on_every_rank(scenario):
    case = case_of(scenario)
    report = simulate(case)
    assert report.timeline.steady
    for rank in report.ranks:
        assert sum(rank.breakdown_ns.values()) == report.step_time_ns
        assert all(isinstance(value, int) and value >= 0 for value in rank.breakdown_ns.values())
    assert abs(sum(report.breakdown_ns.values()) - report.step_time_ns) < 1e-3


@few
@given(scenarios())
def test_spans_of_one_stream_never_overlap_and_start_when_ready(scenario):
    case = case_of(scenario)
    spans = play_case(case).spans
    assert (spans.ready_ns <= spans.start_ns).all()
    assert (spans.start_ns <= spans.end_ns).all()
    same = (spans.rank[1:] == spans.rank[:-1]) & (spans.stream[1:] == spans.stream[:-1])
    assert (spans.ready_ns[1:][same] >= spans.end_ns[:-1][same]).all()


@few
@given(scenarios())
def test_nothing_starts_before_what_it_depends_on(scenario):
    case = case_of(scenario)
    timeline = play_case(case, fold=False)
    program, spans = timeline.program, timeline.spans
    times, shown = {}, {}  # the last row of a stream that is shown
    for row in range(len(spans)):
        stream = int(spans.rank[row]), timeline.streams[int(spans.stream[row])]
        shown[stream] = int(spans.step[row]), int(spans.instruction[row])
        times[(*stream, *shown[stream])] = (int(spans.ready_ns[row]), int(spans.end_ns[row]))
    recorded, waited = {}, []
    for rank, binding in enumerate(program.ranks):
        for stream, instructions in program.roles[binding.role].streams.items():
            if stream == HOST:
                continue  # its spans are not kept
            now = 0
            for step in range(len(timeline.step_ends_ns) + 1):
                for index, item in enumerate(instructions):
                    if (step, index) > shown.get((rank, stream), (-1, -1)):
                        break
                    if isinstance(item, Record):
                        recorded[rank, step, item.event] = now
                    elif not isinstance(item, Alloc | Free):
                        ready, end = times.get((rank, stream, step, index), (now, now))
                        assert ready == now, "a stream is never ahead of itself"
                        now = end
                        if isinstance(item, Wait):
                            waited.append((rank, step, item.event, now))
    assert all(now >= recorded.get((rank, step, event), 0) for rank, step, event, now in waited)


@few
@given(scenarios())
def test_members_of_a_transfer_start_and_end_together(scenario):
    case = case_of(scenario)
    timeline = play_case(case, fold=False)
    program, spans = timeline.program, timeline.spans
    numbers, meetings = Counter(), defaultdict(set)
    for row in range(len(spans)):
        item = timeline.instruction(row)
        if isinstance(item, Collective | Send | Recv):
            rank = int(spans.rank[row])
            group = program.ranks[rank].groups[item.communicator]
            if isinstance(item, Collective):
                name = (group, "all")
            else:
                own = program.roles[program.ranks[rank].role].position[item.communicator]
                name = (group, *((own, item.peer) if isinstance(item, Send) else (item.peer, own)))
            numbers[rank, name] += 1
            meetings[name, numbers[rank, name]].add((int(spans.start_ns[row]), int(spans.end_ns[row])))
    assert meetings or case.strategy.world_size == 1
    assert all(len(times) == 1 for times in meetings.values())


@few
@given(scenarios())
def test_bytes_on_links_are_conserved_and_never_exceed_capacity(scenario):
    case = case_of(scenario)
    timeline = play_case(case, fold=False)
    flows, program = timeline.flows, timeline.program
    moved = flows.rate_per_ns * (flows.end_ns - flows.start_ns)
    done = np.cumsum(moved)[flows.last]
    each = np.diff(np.r_[0.0, done])
    slack = flows.rate_per_ns[flows.last]  # an end is rounded up to a nanosecond
    assert (np.abs(each - 1) <= 2 * slack + 1e-9).all()
    events = defaultdict(list)
    for transfer, start, end, rate in zip(
        flows.transfer.tolist(), flows.start_ns.tolist(), flows.end_ns.tolist(), flows.rate_per_ns.tolist(), strict=True
    ):
        for load in program.transfers[timeline.transfers[transfer]].loads:
            events[load.link] += [(start, 1, load.bytes * rate), (end, 0, -load.bytes * rate)]
    for link, changes in events.items():
        use = 0.0
        for _, _, change in sorted(changes):
            use += change
            assert use <= program.links[link].bytes_per_s / 1e9 * (1 + 1e-6)


@few
@example(AHEAD)
@given(scenarios())
def test_reruns_and_folding_change_nothing(scenario):
    case = case_of(scenario)

    def result(fold):
        (run,) = runs_to_json([simulate(case, fold=fold)])["runs"]
        return {**run, "ranks": sorted((r for r in run["ranks"]), key=lambda r: r["rank"])}

    first, again, whole = result(True), result(True), result(False)
    assert first == again
    by_member = {}
    for rank in simulate(case).ranks:
        by_member.update(dict.fromkeys(rank.members, rank.breakdown_ns))
    assert {rank["rank"]: rank["breakdown_ns"] for rank in whole["ranks"]} == by_member
    assert whole["step_time_ns"] == first["step_time_ns"]
    assert whole["peak_memory_bytes"] == first["peak_memory_bytes"]


@few
@given(scenarios())
def test_a_step_gives_back_all_the_memory_that_it_takes(scenario):
    timeline = play_case(case_of(scenario))
    for role in timeline.program.roles:
        items = [item for stream in role.streams.values() for item in stream]
        taken = sum(item.bytes for item in items if isinstance(item, Alloc))
        assert taken == sum(item.bytes for item in items if isinstance(item, Free))
    memory = timeline.memory
    for rank in range(len(timeline.program.ranks)):
        assert (np.cumsum(memory.delta_bytes[memory.rank == rank]) >= 0).all()
