"""What a peak is made of, summed by hand for a transformer of two blocks."""

import pytest

from simgpu.api import simulate
from simgpu.engine import play
from simgpu.metrics.memory import memory_use
from simgpu.program import Alloc, Free
from tests.lower.tiny import ALL, BLOCK, EMBEDDING, HEAD, STREAM, TOKENS, tiny
from tests.programs import program, role, work

GIB = 1 << 30
PROCESS = {"context": int(0.7 * GIB), "communication": int(0.35 * GIB)}
IDS = 8 * TOKENS  # kept by the embedding
KEPT = 14 * STREAM + 4 * 4 * TOKENS  # by a block: 5 inputs, q k v, SwiGLU's 4 + 2 half streams; softmax statistics
HEAD_KEPT = 2 * STREAM  # inputs of the final norm and of the logits
WORKING = 8 * STREAM  # gradients while a block runs backward
LOGITS = 6 * TOKENS * 256  # bf16 logits and their fp32 softmax
LOGITS_GRADIENT = 4 * TOKENS * 256


def only_rank(**wanted):
    (rank,) = simulate(tiny(**wanted)).ranks
    return rank


def start_of(rank, name, microbatch=0):
    return min(bar.start_ns for bar in rank.bars if (bar.name, bar.microbatch) == (name, microbatch))


def test_fsdp_peaks_with_two_live_blocks_beside_the_root():
    """At block 1's backward: head's forward has gone, block 0 is on its way, two groups' gradients are unsharded.

    Before it, in head's backward, the logits (1.5 x as much as a block's working set) are still less than the second
    gathered block and its gradients; after it a block's activations have been given back.
    """
    rank = only_rank(data_parallel="fsdp")
    assert rank.memory_at_peak_bytes == {
        **PROCESS,
        "weights": 4 * ALL // 2,
        "gradients": 4 * ALL // 2,
        "optimizer": 8 * ALL // 2,
        "gathered": 2 * (EMBEDDING + HEAD + 2 * BLOCK),
        "buckets": 2 * (EMBEDDING + HEAD + BLOCK),
        "activations": IDS + 2 * KEPT,
        "backward gradients": WORKING,
    }
    assert rank.peak_memory_bytes == sum(rank.memory_at_peak_bytes.values())
    assert rank.peak_time_ns == start_of(rank, "backward block 1") > 0


@pytest.mark.parametrize(("overlap_comm", "buckets"), [(False, 1), (True, 2)])
def test_zero2_peaks_at_the_logits(overlap_comm, buckets):
    rank = only_rank(data_parallel="zero2", zero={"overlap_comm": overlap_comm, "reduce_bucket_size": 50_000})
    assert rank.memory_at_peak_bytes == {
        **PROCESS,
        "weights": 2 * ALL,  # whole, in bf16
        "gradients": 2 * ALL // 2,
        "optimizer": 12 * ALL // 2,  # fp32 master and two moments
        "buckets": buckets * 2 * 50_000,
        "activations": IDS + 2 * KEPT + HEAD_KEPT,
        "logits": LOGITS,
        "backward gradients": LOGITS_GRADIENT,
    }
    assert rank.peak_time_ns == start_of(rank, "backward head") > 0


def test_a_bucket_is_no_larger_than_the_model():
    assert only_rank(data_parallel="zero2").memory_at_peak_bytes["buckets"] == 2 * ALL


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
