"""The engine agrees with a list scheduler wherever no link is shared."""

from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.engine import play
from simgpu.lower.emitter import Emitter
from simgpu.lower.pipeline import PipelineMessages
from simgpu.parallel.schedules import SCHEDULES
from simgpu.program import Collective, Kernel
from tests.engine.oracle import schedule
from tests.programs import cost, message_key, program, reduce_key, role


def pipeline(name, forward, backward, microbatches, overlap, latency, replicas, reduce_ns):
    """A pipeline of given stage times, optionally with a gradient all-reduce between two replicas."""
    stages, roles = len(forward), []
    for stage in range(stages):
        emitter = Emitter()
        messages = PipelineMessages(emitter, stage, stages, 8, overlap)
        for action in SCHEDULES[name](stages, microbatches, stage):
            messages.before(action)
            duration = (forward if action.kind == "F" else backward)[stage]
            kernel = Kernel(name=str(action), op_class="gemm", duration_ns=duration)
            emitter.kernels(str(action), [kernel], phase=action.kind, microbatch=action.microbatch)
            messages.after(action)
        messages.finish()
        if replicas > 1:
            reduction = Collective(name="reduce", communicator="dp", kind="all_reduce", bytes=4)
            emitter.wait(emitter.transfer("dp", reduction, after=emitter.record()))
        roles.append(role(emitter.streams, stage=stage))
    groups, transfers = [], {}
    for replica in range(replicas):
        if stages > 1:
            for i in range(stages - 1):
                transfers[len(groups), message_key(i, i + 1, 8)] = cost(latency, 3)
                transfers[len(groups), message_key(i + 1, i, 8)] = cost(latency, 3)
            groups.append(("pp", tuple(range(replica * stages, (replica + 1) * stages))))
    if replicas > 1:
        for stage in range(stages):
            transfers[len(groups), reduce_key(4)] = cost(latency, reduce_ns)
            groups.append(("dp", tuple(replica * stages + stage for replica in range(replicas))))
    return program(roles, list(range(stages)) * replicas, groups, transfers)


times = st.integers(1, 50)


@settings(max_examples=80)
@given(
    st.sampled_from(sorted(SCHEDULES)),
    st.lists(st.tuples(times, times), min_size=1, max_size=5),
    st.integers(1, 7),
    st.booleans(),
    st.integers(0, 20),
    st.integers(1, 2),
    times,
)
def test_engine_equals_the_list_scheduler(name, stage_times, microbatches, overlap, latency, replicas, reduce_ns):
    forward, backward = zip(*stage_times, strict=True)
    subject = pipeline(name, forward, backward, microbatches, overlap, latency, replicas, reduce_ns)
    timeline = play(subject)
    expected = schedule(subject, len(timeline.step_ends_ns))
    spans = timeline.spans
    for (rank, stream), wanted in expected.items():
        rows = timeline.rows(rank, stream)
        got = [(int(spans.ready_ns[i]), int(spans.start_ns[i]), int(spans.end_ns[i])) for i in rows]
        assert got == wanted, (rank, stream)
