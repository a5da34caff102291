"""Orders of DeepSpeed's ZeRO stages."""

import pytest

from simgpu.program import HOST, Collective, Wait
from tests.lower.printer import golden, streams
from tests.lower.tiny import ALL, BLOCK, DOWN, EMBEDDING, GATE_UP, HEAD, NORM, OUT, QKV, roles

# reduce_bucket_size counts elements; a bucket leaves when the next gradient would overflow it.
FIRST = EMBEDDING + NORM + DOWN + GATE_UP + NORM + OUT  # head, final norm, block 1 up to out; qkv would make 57,472
SECOND = QKV + NORM + DOWN + GATE_UP + NORM + OUT  # its qkv and norm1, block 0 up to out
THIRD = QKV + NORM + EMBEDDING
BUCKET = 50_000
SHARD = ALL // 2


def test_buckets_by_hand():
    assert (FIRST, SECOND, THIRD) == (45184, 41088, 28736)
    assert FIRST + QKV > BUCKET
    assert SECOND + QKV > BUCKET
    assert FIRST + SECOND + THIRD == ALL


def zero(stage, *, overlap_comm=None, allgather_bucket_size=None, **wanted):
    third = {"stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 1} if stage == 3 else {}
    options = {
        **third,  # nothing stays gathered, one unit ahead: the whole model is smaller than DeepSpeed's defaults
        "reduce_bucket_size": BUCKET,
        "overlap_comm": overlap_comm,
        "allgather_bucket_size": allgather_bucket_size,
    }
    given = {name: value for name, value in options.items() if value is not None}  # the rest is DeepSpeed's default
    (role,) = roles(data_parallel=f"zero{stage}", zero=given, **wanted)
    return role


STEP = f"""
        compute: gradient norm = {2 * SHARD}          -- its own bf16 gradients
                 <reduce gradient norm>               -- joined with the other ranks' shards
                 optimizer = {(4 + 28) * SHARD}       -- its own share only
        norm: <gradient norm> | reduce gradient norm = all_reduce 4
"""


def test_zero1_reduces_once_and_waits_for_every_bucket():
    role = zero(1, allgather_bucket_size=100_000)
    assert streams(role) == golden(
        f"""
        compute: F0 embedding | F0 block 0 | F0 block 1 | F0 head
                 B0 head | B0 block 1 | B0 block 0 | B0 embedding   -- at the accumulation boundary only
                 F1 embedding | F1 block 0 | F1 block 1 | F1 head
                 B1 head | B1 block 1                               -- up to qkv's gradient, which does not fit
                 flatten gradients@1 = {4 * FIRST}                  -- bf16 in, bf16 out
                 <reduce gradients to attention.qkv.weight@1>       -- overlap_comm is off by default
                 B1 block 1 #2 | B1 block 0
                 flatten gradients@1 #2 = {4 * SECOND}
                 <reduce gradients to attention.qkv.weight@1 #2>
                 B1 block 0 #2 | B1 embedding
                 flatten gradients@1 #3 = {4 * THIRD}               -- what is left goes at the end
                 <reduce gradients to embedding.weight@1>
        dp: <flatten gradients@1>
            reduce gradients to attention.qkv.weight@1 = reduce_scatter {2 * FIRST}
            <flatten gradients@1 #2>
            reduce gradients to attention.qkv.weight@1 #2 = reduce_scatter {2 * SECOND}
            <flatten gradients@1 #3>
            reduce gradients to embedding.weight@1 = reduce_scatter {2 * THIRD}
        {STEP}
        dp: <optimizer>
            gather updated weights = all_gather {2 * 100_000}       -- allgather_bucket_size elements at a time
            <optimizer>
            gather updated weights #2 = all_gather {2 * (ALL - 100_000)}
        compute: <gather updated weights #2>                        -- the next step needs all of them
        """
    )
    assert "buckets" not in role.resident_bytes, "flattened for the reduction only"


def zero2_reductions(m):
    return f"""
        dp: <flatten gradients@{m}>
            reduce gradients to attention.qkv.weight@{m} = reduce_scatter {2 * FIRST}
            add reduced shard@{m} = {6 * FIRST // 2}                -- read 2 + 2, write 2, on the rank's half
            <flatten gradients@{m} #2>
            reduce gradients to attention.qkv.weight@{m} #2 = reduce_scatter {2 * SECOND}
            add reduced shard@{m} #2 = {6 * SECOND // 2}
            <flatten gradients@{m} #3>
            reduce gradients to embedding.weight@{m} = reduce_scatter {2 * THIRD}
            add reduced shard@{m} #3 = {6 * THIRD // 2}
        """


def zero2_backward(m, *, blocking):
    """Without overlap, backward waits until the reduced shard is added, bucket by bucket."""
    first, second, third = (f"| <add reduced shard@{m}{number}>" if blocking else "" for number in ("", " #2", " #3"))
    return f"""
        compute: F{m} embedding | F{m} block 0 | F{m} block 1 | F{m} head
                 B{m} head | B{m} block 1
                 flatten gradients@{m} = {4 * FIRST} {first}
                 B{m} block 1 #2 | B{m} block 0
                 flatten gradients@{m} #2 = {4 * SECOND} {second}
                 B{m} block 0 #2 | B{m} embedding
                 flatten gradients@{m} #3 = {4 * THIRD} {third}
        """


GATHER = f"""
        dp: <optimizer> | gather updated weights = all_gather {2 * ALL}
        compute: <gather updated weights>
"""


def test_zero2_reduces_in_every_microbatch():
    wanted = "".join(zero2_backward(m, blocking=True) + zero2_reductions(m) for m in (0, 1))
    role = zero(2)
    assert streams(role) == golden(wanted + STEP + GATHER)
    assert role.resident_bytes["buckets"] == 2 * BUCKET


def test_zero2_with_overlap_waits_at_the_end_of_every_backward():
    wanted = "".join(
        zero2_backward(m, blocking=False) + f"\ncompute: <add reduced shard@{m} #3>\n" + zero2_reductions(m)
        for m in (0, 1)
    )
    role = zero(2, overlap_comm=True)
    assert streams(role) == golden(wanted + STEP + GATHER)
    assert role.resident_bytes["buckets"] == 2 * 2 * BUCKET, "two buckets alternate"


def zero3_gather(m, number, name, elements, after, repeat=""):
    """The shard is cast into the gather's buffer first: read 2, write 2."""
    return f"""
        dp: <{after}> | cast shard@{m}{number} = {4 * elements // 2}
            gather {name}@{m}{repeat} = all_gather {2 * elements}
        """


def zero3_compute(m, *, blocking):
    first, second, third = (f"| <add reduced shard@{m}{number}>" if blocking else "" for number in ("", " #2", " #3"))
    return f"""
        compute: <gather embedding@{m}> | spread gathered weights@{m} = {4 * EMBEDDING} | F{m} embedding
                 <gather block 0@{m}> | spread gathered weights@{m} #2 = {4 * BLOCK} | F{m} block 0
                 <gather block 1@{m}> | spread gathered weights@{m} #3 = {4 * BLOCK} | F{m} block 1
                 <gather head@{m}> | spread gathered weights@{m} #4 = {4 * HEAD} | F{m} head
                 <gather head@{m} #2> | spread gathered weights@{m} #5 = {4 * HEAD} | B{m} head -- dropped, needed again
                 <gather block 1@{m} #2> | spread gathered weights@{m} #6 = {4 * BLOCK} | B{m} block 1
                 flatten gradients@{m} = {4 * FIRST} {first} | B{m} block 1 #2
                 <gather block 0@{m} #2> | spread gathered weights@{m} #7 = {4 * BLOCK} | B{m} block 0
                 flatten gradients@{m} #2 = {4 * SECOND} {second} | B{m} block 0 #2
                 <gather embedding@{m} #2> | spread gathered weights@{m} #8 = {4 * EMBEDDING} | B{m} embedding
                 flatten gradients@{m} #3 = {4 * THIRD} {third}
        """


def zero3_reduction(m, number, name, elements, repeat=""):
    return f"""
        dp: <flatten gradients@{m}{number}>
            reduce gradients to {name}@{m}{repeat} = reduce_scatter {2 * elements}
            add reduced shard@{m}{number} = {6 * elements // 2}
        """


def test_zero3_fetches_the_next_unit_while_this_one_computes():
    wanted = ""
    for m, before in ((0, "begin"), (1, "after <add reduced shard@0 #3>")):
        spread = f"spread gathered weights@{m}"  # a unit's weights have arrived; the next gather goes out beside it
        wanted += zero3_compute(m, blocking=False) + f"\ncompute: <add reduced shard@{m} #3>\n"
        wanted += zero3_gather(m, "", "embedding", EMBEDDING, before)
        wanted += zero3_gather(m, " #2", "block 0", BLOCK, spread)
        wanted += zero3_gather(m, " #3", "block 1", BLOCK, f"{spread} #2")
        wanted += zero3_gather(m, " #4", "head", HEAD, f"{spread} #3")
        wanted += zero3_gather(m, " #5", "head", HEAD, f"F{m} head", " #2")  # nothing follows head in forward
        wanted += zero3_gather(m, " #6", "block 1", BLOCK, f"{spread} #5", " #2")
        wanted += zero3_gather(m, " #7", "block 0", BLOCK, f"{spread} #6", " #2")
        wanted += zero3_reduction(m, "", "attention.qkv.weight", FIRST)  # within block 1's backward
        wanted += zero3_gather(m, " #8", "embedding", EMBEDDING, f"{spread} #7", " #2")
        wanted += zero3_reduction(m, " #2", "attention.qkv.weight", SECOND, " #2")
        wanted += zero3_reduction(m, " #3", "embedding.weight", THIRD)
    role = zero(3)
    assert streams(role) == golden(wanted + STEP)  # and no gather after the step: weights stay sharded
    assert role.resident_bytes["buckets"] == 2 * 2 * BUCKET, "overlap_comm is on by default at stage 3"


def test_zero3_without_overlap_gathers_when_needed_and_blocks():
    wanted = ""
    for m, before in ((0, "begin"), (1, "after <add reduced shard@0 #3>")):
        wanted += zero3_compute(m, blocking=True)
        wanted += zero3_gather(m, "", "embedding", EMBEDDING, before)
        wanted += zero3_gather(m, " #2", "block 0", BLOCK, f"F{m} embedding")  # only after the unit before
        wanted += zero3_gather(m, " #3", "block 1", BLOCK, f"F{m} block 0")
        wanted += zero3_gather(m, " #4", "head", HEAD, f"F{m} block 1")
        wanted += zero3_gather(m, " #5", "head", HEAD, f"F{m} head", " #2")
        wanted += zero3_gather(m, " #6", "block 1", BLOCK, f"B{m} head", " #2")
        wanted += zero3_reduction(m, "", "attention.qkv.weight", FIRST)
        wanted += zero3_gather(m, " #7", "block 0", BLOCK, f"B{m} block 1 #2", " #2")
        wanted += zero3_reduction(m, " #2", "attention.qkv.weight", SECOND, " #2")
        wanted += zero3_gather(m, " #8", "embedding", EMBEDDING, f"B{m} block 0 #2", " #2")
        wanted += zero3_reduction(m, " #3", "embedding.weight", THIRD)
    role = zero(3, overlap_comm=False)
    assert streams(role) == golden(wanted + STEP)
    assert role.resident_bytes["buckets"] == 2 * BUCKET


def test_without_an_optimizer_no_weights_are_gathered_after_the_step():
    role = zero(1, training={"optimizer": "none"})
    assert streams(role)["compute"][-1] == "<reduce gradients to embedding.weight@1>"
    assert not any("gather" in token for token in streams(role)["dp"])


def gathers(role, m=0):
    return [token for token in streams(role)["dp"] if token.startswith("gather ") and f"@{m}" in token]


def stage3(**options):
    plain = {"stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 1}
    (role,) = roles(data_parallel="zero3", zero={**plain, **options})
    return role


@pytest.mark.parametrize(
    ("elements", "starts"),
    [
        (1, ["begin", "#1", "#2", "#3"]),  # one unit ahead
        (EMBEDDING, ["begin", "#1", "#2", "#3"]),  # a block is more than that
        (BLOCK + 1, ["begin", "#1", "#1", "#2"]),  # one block is not enough: two
        (ALL, ["begin", "#1", "#1", "#1"]),  # everything at once
        (0, ["begin", "F0 embedding", "F0 block 0", "F0 block 1"]),  # nothing ahead
    ],
)
def test_the_prefetch_bucket_says_how_many_elements_are_fetched_ahead(elements, starts):
    """Each gather's shard is cast as soon as what was asked for before it has begun: the first spread is #1."""
    dp = streams(stage3(stage3_prefetch_bucket_size=elements))["dp"]
    waits = [token[1:-1] for token in dp if token.startswith("<")][:4]
    spread = {"spread gathered weights@0": "#1"} | {f"spread gathered weights@0 #{i}": f"#{i}" for i in (2, 3, 4)}
    assert [spread.get(wait, wait) for wait in waits] == starts


def test_no_more_than_the_live_parameters_are_fetched_ahead():
    """The embedding is whole; with block 0 that is 57,472 elements, with block 1 98,560."""
    dp = streams(stage3(stage3_prefetch_bucket_size=ALL, stage3_max_live_parameters=EMBEDDING + BLOCK))["dp"]
    waits = [token[1:-1] for token in dp if token.startswith("<")][:3]
    assert waits == ["begin", "spread gathered weights@0", "F0 block 0"]


def test_small_weights_stay_gathered_and_are_gathered_once_a_step():
    """Up to 4,096 elements: the norms and the attention's output projection."""
    role = stage3(stage3_param_persistence_threshold=OUT)
    small = 5 * NORM + 2 * OUT
    assert gathers(role)[1] == f"gather block 0@0 = all_gather {2 * (BLOCK - 2 * NORM - OUT)}"
    assert gathers(role)[3] == f"gather head@0 = all_gather {2 * (HEAD - NORM)}"
    assert streams(role)["dp"][-1] == f"gather updated weights = all_gather {2 * small}"
    assert streams(role)["compute"][-1] == "<gather updated weights>"
    assert role.resident_bytes["weights"] == 2 * ALL // 2 + 2 * small


def test_by_default_a_small_model_stays_whole():
    """Every weight has fewer than DeepSpeed's 100,000 elements."""
    (role,) = roles(data_parallel="zero3")
    assert not gathers(role)
    assert role.resident_bytes["weights"] == 2 * ALL // 2 + 2 * ALL


def moved(role):
    """Bytes over the ring of two ranks per step: twice a payload for an all-reduce, once for the others, halved."""
    factors = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
    return sum(
        factors[item.kind] * item.bytes // 2
        for item in role.streams["dp"]
        if isinstance(item, Collective) and item.communicator == "dp"
    )


def test_zero3_moves_half_as_much_again_as_ddp_per_micro_step():
    (plain,) = roles(data_parallel="ddp", training={"gradient_accumulation": 1, "reduce_dtype": "bf16"})
    assert moved(plain) == 2 * ALL * 2 // 2
    assert moved(stage3()) == 2 * 1.5 * moved(plain), "two micro-steps"
    assert moved(zero(1, training={"gradient_accumulation": 1})) == moved(plain), "reduce-scatter and all-gather"


@pytest.mark.parametrize(
    ("stage", "overlap", "waits"),
    [(1, None, 1), (2, False, 1), (2, True, 1 + 2), (3, None, 1 + 2)],  # the norm, and every backward
)
def test_when_the_cpu_waits_for_the_gpu(stage, overlap, waits):
    role = zero(stage, overlap_comm=overlap, software={"host_issue_ns": 7000})
    assert len([item for item in role.streams[HOST] if isinstance(item, Wait)]) == waits
