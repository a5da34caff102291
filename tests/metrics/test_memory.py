"""What a peak is made of, summed by hand for a transformer of two blocks."""

from dataclasses import replace

import pytest

from simgpu.api import simulate
from simgpu.engine import play
from simgpu.metrics.host_memory import host_memory
from simgpu.metrics.memory import allowances, describe_nearly_full, memory_use
from simgpu.program import Alloc, Free
from tests.lower.tiny import ALL, BLOCK, DOWN, EMBEDDING, GATE_UP, HEAD, OUT, QKV, STREAM, TOKENS, tiny
from tests.programs import program, role, work

GIB = 1 << 30
PROCESS = {"context": int(0.7 * GIB), "communication": int(0.35 * GIB), "workspaces": 65 << 18}
IDS = 8 * TOKENS  # kept by the embedding
KEPT = 14 * STREAM + 4 * 4 * TOKENS  # by a block: 5 inputs, q k v, SwiGLU's 4 + 2 half streams; softmax statistics
HEAD_KEPT = 2 * STREAM  # inputs of the final norm and of the logits
WORKING = 6 * STREAM  # gradients while a block runs backward: two tensors of 2 streams, two streams
LOGITS = 6 * TOKENS * 256  # bf16 logits and their fp32 softmax
LOGITS_GRADIENT = 4 * TOKENS * 256


def only_rank(**wanted):
    (rank,) = simulate(tiny(**wanted)).ranks
    return rank


def start_of(rank, name, microbatch=0):
    return min(bar.start_ns for bar in rank.bars if (bar.name, bar.microbatch) == (name, microbatch))


def test_fsdp_peaks_with_two_live_blocks_beside_the_root():
    """At the end of block 1's backward: the root and block 0, on its way, are whole, and two groups' gradients.

    Block 1's gradients are there twice while they are flattened, and the gradient of its input; its activations have
    gone as its gradients were written.
    """
    rank = only_rank(data_parallel="fsdp")
    assert rank.memory_at_peak_bytes == {
        **PROCESS,
        "weights": 4 * ALL // 2,
        "gradients": 4 * ALL // 2,
        "optimizer": 8 * ALL // 2,
        "gathered": 2 * (EMBEDDING + HEAD + 2 * BLOCK),
        "buckets": 2 * (EMBEDDING + HEAD + BLOCK + BLOCK),
        "activations": IDS + KEPT,
        "backward gradients": STREAM,
    }
    assert rank.peak_memory_bytes == sum(rank.memory_at_peak_bytes.values())
    assert rank.peak_time_ns >= start_of(rank, "backward block 1") > 0


@pytest.mark.parametrize(("overlap_comm", "buckets"), [(False, 1), (True, 2)])
def test_zero2_peaks_while_a_bucket_with_parts_of_two_ranks_is_joined(overlap_comm, buckets):
    """In the second micro-batch: its own part of the gradients stands beside the first one's; a bucket is a block's."""
    rank = only_rank(data_parallel="zero2", zero={"overlap_comm": overlap_comm, "reduce_bucket_size": 50_000})
    assert rank.memory_at_peak_bytes == {
        **PROCESS,
        "weights": 2 * ALL,  # whole, in bf16
        "gradients": 2 * ALL // 2,
        "optimizer": 12 * ALL // 2,  # fp32 master and two moments
        "buckets": buckets * 2 * 50_000 + 2 * ALL // 2 + 2 * BLOCK,
        "activations": IDS + KEPT,
        "backward gradients": WORKING,
    }
    assert rank.peak_time_ns >= start_of(rank, "backward block 0", 1) > 0


def test_deepspeed_takes_its_whole_bucket_however_small_the_model():
    held = only_rank(data_parallel="zero2").memory_at_peak_bytes["buckets"]
    assert held == 2 * 500_000_000 + 2 * ALL + 2 * ALL // 2, "and all gradients once more, joined, and a second half"


@pytest.mark.parametrize(("schedule", "live"), [("1f1b", (2, 1)), ("gpipe", (4, 4))])
def test_gpipe_holds_every_microbatch_and_1f1b_as_many_as_stages_are_left(schedule, live):
    report = simulate(tiny(pp=2, schedule=schedule, training={"gradient_accumulation": 4}))
    first, last = (rank.memory_at_peak_bytes for rank in report.ranks)
    assert first == {
        **PROCESS,
        "weights": 2 * (EMBEDDING + BLOCK),
        "gradients": 4 * (EMBEDDING + BLOCK),
        "optimizer": 12 * (EMBEDDING + BLOCK),
        "activations": live[0] * (IDS + KEPT),
        "backward gradients": WORKING,
    }
    assert last == {
        **PROCESS,
        "weights": 2 * (BLOCK + HEAD),
        "gradients": 4 * (BLOCK + HEAD),
        "optimizer": 12 * (BLOCK + HEAD),
        "activations": live[1] * (KEPT + HEAD_KEPT),
        "logits": live[1] * LOGITS,
        "backward gradients": LOGITS_GRADIENT,
    }


def test_one_gpu_has_a_context_but_no_communicator():
    peak = only_rank(gpus=1).memory_at_peak_bytes
    assert peak["context"] == PROCESS["context"]
    assert "communication" not in peak


def timeline(*instructions, resident=None):
    return play(program([role({"compute": instructions}, resident=resident)], [0], [], {}))


def test_a_curve_starts_at_what_is_resident_and_ends_with_the_step():
    played = timeline(
        *(work(5), Alloc(3, "activations"), work(4), Alloc(2, "logits"), work(1), Free(3, "activations")),
        *(work(7), Free(2, "logits"), work(3)),
        resident={"weights": 10},
    )
    use = memory_use(played, 0)
    assert use.curve == ((0, 10), (5, 13), (9, 15), (10, 12), (17, 10), (20, 10))
    assert (use.peak_bytes, use.peak_time_ns) == (15, 9)
    assert use.at_peak_bytes == {"weights": 10, "activations": 3, "logits": 2}


def test_what_is_freed_and_taken_at_one_instant_does_not_count_twice():
    played = timeline(
        Alloc(8, "activations"), work(5), Free(8, "activations"), Alloc(6, "logits"), work(5), Free(6, "logits")
    )
    use = memory_use(played, 0)
    assert (use.peak_bytes, use.peak_time_ns) == (8, 0)
    assert use.at_peak_bytes == {"activations": 8}


def test_of_two_equal_peaks_the_first_is_reported():
    once = (work(5), Alloc(8, "activations"), work(5), Free(8, "activations"))
    assert memory_use(timeline(*once, *once, work(1)), 0).peak_time_ns == 5


def test_memory_that_never_changes_peaks_at_the_start():
    use = memory_use(timeline(work(9), resident={"weights": 4}), 0)
    assert (use.curve, use.peak_bytes, use.peak_time_ns) == (((0, 4), (9, 4)), 4, 0)


def test_a_peak_splits_into_what_the_allocator_hands_out_and_the_rest():
    found = allowances({"weights": 60 * GIB, "activations": 10 * GIB, "context": GIB, "communication": GIB // 2})
    assert (found.allocated_bytes, found.context_bytes, found.communication_bytes) == (70 * GIB, GIB, GIB // 2)
    assert found.fragmentation_bytes == (round(1.4 * GIB), round(5.6 * GIB))


@pytest.mark.parametrize(("gib", "warned"), [(92, False), (94, True), (100, True), (101, False)])
def test_the_warning_of_a_nearly_full_card_counts_fragmentation_apart(gib, warned):
    text = describe_nearly_full(3, gib * GIB, 100 * GIB, allowances({"weights": gib * GIB}))
    assert bool(text) == warned
    if warned:
        assert text.startswith(f"memory is {gib}% full on rank 3: above 93% allocation retries slow real steps down")
        assert text.endswith(f"fragmentation, which adds {0.02 * gib:.1f} to {0.08 * gib:.1f} GiB, is not counted")


@pytest.mark.parametrize(("preset", "shapes"), [("flash", 0), ("te", QKV + OUT + GATE_UP + DOWN + EMBEDDING)])
def test_transformer_engine_keeps_a_dummy_gradient_for_every_shape_of_weights(preset, shapes):
    """Two equal blocks share theirs; the head has one, the embedding, a look-up, none; norms are no matrix products."""
    resident = (
        simulate(tiny(data_parallel="distributed_optimizer", software={"preset": preset}))
        .timeline.program.roles[0]
        .resident_bytes
    )
    assert resident.get("dummy gradients", 0) == 2 * shapes


def test_sequence_parallelism_keeps_a_buffer_of_the_whole_stream():
    plain, scattered = (
        simulate(tiny(tp=2, sequence_parallel=on)).timeline.program.roles[0].resident_bytes["workspaces"]
        for on in (False, True)
    )
    assert scattered - plain == STREAM


def test_hosts_sum_their_ranks_and_the_fullest_is_reported():
    full, empty = (role({"compute": (work(1),)}, stage=i) for i in (0, 1))
    full = replace(full, host_bytes={"optimizer": 10, "weights": 1})
    subject = program([full, empty], [0, 1, 0, 0], [], {})
    assert host_memory(subject, 2, None).by_category_bytes == {"optimizer": 20, "weights": 2}
    assert host_memory(subject, 4, 40).total_bytes == 33
    assert host_memory(program([empty], [0], [], {}), 1, None).by_category_bytes == {}
