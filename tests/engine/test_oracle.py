"""The engine agrees with a list scheduler wherever no link is shared."""

from itertools import permutations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simgpu.engine import play
from simgpu.lower.emitter import Emitter
from simgpu.lower.pipeline import PipelineMessages, pipeline_script
from simgpu.parallel.messages import Message
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, build_schedule, refusal
from simgpu.program import Collective, Kernel
from tests.engine.oracle import schedule
from tests.programs import cost, message_key, program, reduce_key, role


def pipeline(table, stage_times, overlap, latency, replicas, reduce_ns):
    """A pipeline of given F, I and W times, optionally with a gradient all-reduce between two replicas."""
    stages, roles = table.ranks, []
    script = pipeline_script(table, overlap=overlap)
    for stage in range(stages):
        emitter = Emitter()
        messages = PipelineMessages(emitter, script, stage, (8,) * table.stages)
        for item in script.rows[stage]:
            if isinstance(item, Message):
                messages.post(item)
                continue
            messages.before(item)
            forward, inputs, weights = stage_times[item.stage % len(stage_times)]
            duration = {"F": forward, "I": inputs, "W": weights, "B": inputs + weights}[item.kind]
            kernel = Kernel(name=str(item), op_class="gemm", duration_ns=duration)
            emitter.kernels(str(item), [kernel], phase=item.kind, microbatch=item.microbatch)
        messages.finish()
        if replicas > 1:
            reduction = Collective(name="reduce", communicator="dp", kind="all_reduce", bytes=4)
            emitter.wait(emitter.transfer("dp", reduction, after=emitter.record()))
        roles.append(role(emitter.finished(), stage=stage))
    groups, transfers = [], {}
    for replica in range(replicas):
        if stages > 1:
            for source, target in permutations(range(stages), 2):
                transfers[len(groups), message_key(source, target, 8)] = cost(latency, 3)
            groups.append(("pp", tuple(range(replica * stages, (replica + 1) * stages))))
    if replicas > 1:
        for stage in range(stages):
            transfers[len(groups), reduce_key(4)] = cost(latency, reduce_ns)
            groups.append(("dp", tuple(replica * stages + stage for replica in range(replicas))))
    return program(roles, list(range(stages)) * replicas, groups, transfers)


times = st.integers(1, 50)


@st.composite
def tables(draw):
    """Any schedule that its framework accepts, of up to five ranks."""
    name = draw(st.sampled_from(sorted(PIPELINE_SCHEDULES)))
    ranks, microbatches, virtual = draw(st.integers(1, 5)), draw(st.integers(1, 12)), draw(st.integers(1, 3))
    if refusal(name, ranks=ranks, virtual=virtual, microbatches=microbatches) is not None:
        virtual, microbatches = PIPELINE_SCHEDULES[name].default_virtual, 2 * ranks
    assume(refusal(name, ranks=ranks, virtual=virtual, microbatches=microbatches) is None)
    return build_schedule(name, ranks=ranks, virtual=virtual, microbatches=microbatches)


@settings(max_examples=80)
@given(
    tables(),
    st.lists(st.tuples(times, times, times), min_size=1, max_size=5),
    st.booleans(),
    st.integers(0, 20),
    st.integers(1, 2),
    times,
)
def test_engine_equals_the_list_scheduler(table, stage_times, overlap, latency, replicas, reduce_ns):
    subject = pipeline(table, stage_times, overlap, latency, replicas, reduce_ns)
    timeline = play(subject)
    expected = schedule(subject, len(timeline.step_ends_ns) + 1)
    spans, end = timeline.spans, timeline.window_ns[1]
    for (rank, stream), wanted in expected.items():
        rows = timeline.rows(rank, stream)
        got = [(int(spans.ready_ns[i]), int(spans.start_ns[i]), int(spans.end_ns[i])) for i in rows]
        assert got == wanted[: len(got)], (rank, stream)
        idle = stream != "compute" and [row for row in wanted[len(got) :][:1] if row[0] < end < row[2]]
        assert all(row[0] >= end for row in wanted[len(got) + len(idle or ()) :]), "all that begins in it is shown"
