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

GATHER = f"""
        dp: <optimizer> | gather updated weights = all_gather {2 * ALL}    -- in one, whatever allgather_bucket_size
        compute: <gather updated weights>                                  -- the next step needs all of them
"""

# In registration order, of which rank 0 owns the first half: all of the first bucket, a part of the second.
ONE = EMBEDDING + NORM + QKV + OUT + NORM + GATE_UP
TWO = DOWN + NORM + QKV + OUT + NORM + GATE_UP + DOWN + NORM
THREE = EMBEDDING


def test_zero1_reduces_once_after_the_last_backward():
    """overlap_comm is off by default: nothing leaves before backward is over, and every bucket is waited for."""
    assert (ONE, TWO, THREE) == (49280, 49344, 16384)
    assert ONE < SHARD < ONE + TWO
    role = zero(1, allgather_bucket_size=100_000)
    assert streams(role) == golden(
        f"""
        compute: F0 embedding | F0 block 0 | F0 block 1 | F0 head
                 B0 head | B0 block 1 | B0 block 0 | B0 embedding   -- at the accumulation boundary only
                 F1 embedding | F1 block 0 | F1 block 1 | F1 head
                 B1 head | B1 block 1 | B1 block 0 | B1 embedding
                 flatten gradients@1 = {4 * ONE}                    -- into the bucket, bf16 in, bf16 out
                 prepare gradients@1 = {4 * ONE}                    -- divided by the number of ranks
                 <reduce gradients to embedding.weight@1>
                 add reduced shard@1 = {4 * ONE // 2}               -- a rank's part, out of the bucket
                 flatten gradients@1 #2 = {4 * TWO}
                 prepare gradients@1 #2 = {8 * TWO}                 -- two owners: the parts are joined again
                 <reduce gradients to embedding.weight@1 #2>
                 add reduced shard@1 #2 = {8 * TWO // 2}
                 flatten gradients@1 #3 = {4 * THREE}
                 prepare gradients@1 #3 = {4 * THREE}
                 <reduce gradients to embedding.weight@1 #3>
                 add reduced shard@1 #3 = {4 * THREE // 2}
        dp: <prepare gradients@1> | reduce gradients to embedding.weight@1 = all_reduce {2 * ONE}
            <prepare gradients@1 #2> | reduce gradients to embedding.weight@1 #2 = all_reduce {2 * TWO}
            <prepare gradients@1 #3> | reduce gradients to embedding.weight@1 #3 = all_reduce {2 * THREE}
        {STEP}
        {GATHER}
        """
    )


def test_zero1_with_overlap_reduces_beside_the_last_backward():
    """A bucket waits for the one before it, with the compute stream; the CPU waits at the end."""
    compute = streams(zero(1, overlap_comm=True))["compute"]
    begin = compute.index("B1 head")
    assert compute[begin : compute.index("gradient norm = " + str(2 * SHARD))] == [
        "B1 head",
        "B1 block 1",
        f"flatten gradients@1 = {4 * FIRST}",
        "B1 block 1 #2",
        "B1 block 0",
        "<reduce gradients to attention.qkv.weight@1>",
        f"flatten gradients@1 #2 = {4 * SECOND}",
        "B1 block 0 #2",
        "B1 embedding",
        "<reduce gradients to attention.qkv.weight@1 #2>",
        f"flatten gradients@1 #3 = {4 * THIRD}",
        "<add reduced shard@1 #3>",
    ]


def test_options_of_zero1s_reductions():
    """Owners' parts one by one; a bucket all-reduced in place; gradients joined without a bucket, all copied back."""

    def second(**options):
        (role,) = roles(data_parallel="zero1", zero={"reduce_bucket_size": BUCKET, **options})
        sizes = {token.partition(" = ")[0]: token.partition(" = ")[2] for token in streams(role)["compute"]}
        moved = [token.partition(" = ")[2] for token in streams(role)["dp"] if token.startswith("reduce")]
        return int(sizes["prepare gradients@1 #2"]), moved[1:-1], int(sizes["add reduced shard@1 #2"]), role

    assert second()[:3] == (8 * TWO, [f"all_reduce {2 * TWO}"], 8 * TWO // 2)
    own = SHARD - ONE
    parts = [f"reduce {2 * own}", f"reduce {2 * (TWO - own)}"]
    assert second(use_multi_rank_bucket_allreduce=False)[:3] == (4 * TWO, parts, 4 * TWO // 2)
    assert second(reduce_scatter=False)[:3] == (4 * TWO, [f"all_reduce {2 * TWO}"], 4 * TWO // 2)
    *found, role = second(contiguous_gradients=False)
    assert found == [8 * TWO, [f"all_reduce {2 * TWO}"], 4 * TWO]
    assert not any("flatten" in token for token in streams(role)["compute"])
    assert not [token for token in memory(role, "buckets") if token == 2 * BUCKET]


def memory(role, category, stream="compute"):
    """Signed bytes of a category, in order."""
    tokens = [token for token in streams(role, memory=True)[stream] if token.partition(" ")[2] == category]
    return [int(token.split()[0]) for token in tokens]


def test_when_buckets_and_gradients_of_stages_1_and_2_exist():
    """Buckets of full size are there from the start of backward to the last reduction; gradients are dropped."""
    one, two = zero(1), zero(2)
    assert memory(one, "buckets") == [2 * BUCKET, 2 * TWO, -2 * TWO, -2 * BUCKET], "one bucket for both micro-batches"
    made = [2 * HEAD, 2 * BLOCK, 2 * BLOCK, 2 * EMBEDDING]
    assert memory(one, "gradients") == [*made, -2 * ALL]
    assert memory(one, "optimizer temporaries") == [(2 + 4) * SHARD, -(2 + 4) * SHARD], "flat, and cast to fp32"
    fresh = 2 * SHARD  # the second micro-batch's own part is added to the first one's
    assert memory(two, "buckets") == [
        *(2 * BUCKET, 2 * SECOND, -2 * SECOND, -2 * BUCKET),
        *(2 * BUCKET, fresh, 2 * SECOND, -2 * SECOND, -(2 * BUCKET + fresh)),
    ]
    assert memory(two, "gradients") == [2 * SHARD, -2 * SHARD], "its own part"
    begins = streams(two, memory=True)["compute"]
    assert begins.index(f"+{2 * BUCKET} buckets") < begins.index("B0 head")
    assert memory(zero(2, overlap_comm=True), "buckets")[0] == 2 * 2 * BUCKET, "two buckets alternate"
    for role in (one, two):
        assert not {"gradients", "buckets"} & role.resident_bytes.keys()
    assert zero(3).resident_bytes["gradients"] == 2 * SHARD, "stage 3 keeps its part"


BUCKETS = (("", FIRST, "qkv", 4), (" #2", SECOND, "qkv", 8), (" #3", THIRD, "embedding", 4))
"""The first half of the flat weights is rank 0's: only the second bucket has parts of both ranks, which are joined."""


def zero2(m, *, overlap):
    """Without overlap everything is on the compute stream but the collective; with it a bucket waits for the last."""
    names = {"qkv": f"attention.qkv.weight@{m}", "embedding": f"embedding.weight@{m}"}
    backward = [f"B{m} head | B{m} block 1", f"B{m} block 1 #2 | B{m} block 0", f"B{m} block 0 #2 | B{m} embedding"]
    text, before = f"compute: F{m} embedding | F{m} block 0 | F{m} block 1 | F{m} head", ""
    for index, (number, size, name, prepared) in enumerate(BUCKETS):
        reduced = f"reduce gradients to {names[name]}{number if name == 'qkv' else ''}"
        copies = "dp" if overlap else "compute"
        flat, ready = f"flatten gradients@{m}{number}", f"prepare gradients@{m}{number}"
        there, sent, back = (f"<{flat}> | ", "", "") if overlap else ("", f"<{ready}> | ", f"<{reduced}> | ")
        text += f"""
        compute: {backward[index]} {f"| <{before}>" if overlap and before else ""}
                 {flat} = {4 * size}
        {copies}: {there}{ready} = {prepared * size}
        dp: {sent}{reduced} = all_reduce {2 * size}
        {copies}: {back}add reduced shard@{m}{number} = {(prepared + 6) * size // 2}
        """
        before = reduced
    return text + (f"\ncompute: <add reduced shard@{m} #3>\n" if overlap else "\n")


def test_zero2_reduces_in_every_microbatch():
    assert FIRST < SHARD < FIRST + SECOND
    assert streams(zero(2)) == golden(zero2(0, overlap=False) + zero2(1, overlap=False) + STEP + GATHER)


def test_zero2_with_overlap_waits_at_the_end_of_every_backward():
    wanted = zero2(0, overlap=True) + zero2(1, overlap=True) + STEP + GATHER
    assert streams(zero(2, overlap_comm=True)) == golden(wanted)


def zero3_gather(m, number, name, elements, after, repeat=""):
    """The shard is cast into the gather's buffer first: read 2, write 2."""
    return f"""
        dp: <{after}> | cast shard@{m}{number} = {4 * elements // 2}
            gather {name}@{m}{repeat} = all_gather {2 * elements}
        """


def zero3_compute(m, *, blocking):
    sizes = ((FIRST, "qkv", ""), (SECOND, "qkv", " #2"), (THIRD, "embedding", " #3"))
    names = {"qkv": "attention.qkv.weight", "embedding": "embedding.weight"}
    first, second, third = (
        f"prepare gradients@{m}{number} = {12 * size} "
        f"| <reduce gradients to {names[name]}@{m}{number if name == 'qkv' else ''}> "
        f"| add reduced shard@{m}{number} = {6 * size // 2}"
        if blocking
        else ""
        for size, name, number in sizes
    )
    return f"""
        compute: <gather embedding@{m}> | spread gathered weights@{m} = {4 * EMBEDDING} | F{m} embedding
                 <gather block 0@{m}> | spread gathered weights@{m} #2 = {4 * BLOCK} | F{m} block 0
                 <gather block 1@{m}> | spread gathered weights@{m} #3 = {4 * BLOCK} | F{m} block 1
                 <gather head@{m}> | spread gathered weights@{m} #4 = {4 * HEAD} | F{m} head
                 <gather head@{m} #2> | spread gathered weights@{m} #5 = {4 * HEAD} | B{m} head -- dropped, needed again
                 <gather block 1@{m} #2> | spread gathered weights@{m} #6 = {4 * BLOCK} | B{m} block 1
                 {first}
                 B{m} block 1 #2
                 <gather block 0@{m} #2> | spread gathered weights@{m} #7 = {4 * BLOCK} | B{m} block 0
                 {second}
                 B{m} block 0 #2
                 <gather embedding@{m} #2> | spread gathered weights@{m} #8 = {4 * EMBEDDING}
                 B{m} embedding
                 {third}
        """


def zero3_reduction(m, number, name, elements, after="", *, repeat=""):
    """Into the bucket, put together by ranks, divided: 4 bytes each; with overlap (``after``) on their own stream."""
    prepared, moved = f"prepare gradients@{m}{number}", f"reduce gradients to {name}@{m}{repeat}"
    collective = f"\ndp: <{prepared}> | {moved} = reduce_scatter {2 * elements}\n"
    if not after:
        return collective
    return f"""
        dp_copies: <{after}> | {prepared} = {12 * elements}
        {collective}
        dp_copies: <{moved}> | add reduced shard@{m}{number} = {6 * elements // 2}
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
        qkv = "attention.qkv.weight"
        wanted += zero3_reduction(m, "", qkv, FIRST, f"B{m} block 1")  # within block 1's backward
        wanted += zero3_gather(m, " #8", "embedding", EMBEDDING, f"{spread} #7", " #2")
        wanted += zero3_reduction(m, " #2", qkv, SECOND, f"B{m} block 0", repeat=" #2")
        wanted += zero3_reduction(m, " #3", "embedding.weight", THIRD, f"B{m} embedding")
    role = zero(3)
    assert streams(role) == golden(wanted + STEP)  # and no gather after the step: weights stay sharded
    assert role.resident_bytes["buckets"] == 2 * BUCKET, "one bucket, though overlap_comm is on by default"


def test_zero3_without_overlap_gathers_when_needed_and_blocks():
    wanted = ""
    for m, before in ((0, "begin"), (1, "add reduced shard@0 #3")):
        wanted += zero3_compute(m, blocking=True)
        wanted += zero3_gather(m, "", "embedding", EMBEDDING, before)
        wanted += zero3_gather(m, " #2", "block 0", BLOCK, f"F{m} embedding")  # only after the unit before
        wanted += zero3_gather(m, " #3", "block 1", BLOCK, f"F{m} block 0")
        wanted += zero3_gather(m, " #4", "head", HEAD, f"F{m} block 1")
        wanted += zero3_gather(m, " #5", "head", HEAD, f"F{m} head", " #2")
        wanted += zero3_gather(m, " #6", "block 1", BLOCK, f"B{m} head", " #2")
        wanted += zero3_reduction(m, "", "attention.qkv.weight", FIRST)
        wanted += zero3_gather(m, " #7", "block 0", BLOCK, f"B{m} block 1 #2", " #2")
        wanted += zero3_reduction(m, " #2", "attention.qkv.weight", SECOND, repeat=" #2")
        wanted += zero3_gather(m, " #8", "embedding", EMBEDDING, f"B{m} block 0 #2", " #2")
        wanted += zero3_reduction(m, " #3", "embedding.weight", THIRD)
    role = zero(3, overlap_comm=False)
    assert streams(role) == golden(wanted + STEP)
    assert role.resident_bytes["buckets"] == 2 * BUCKET


def test_without_an_optimizer_no_weights_are_gathered_after_the_step():
    role = zero(1, training={"optimizer": "none"})
    assert streams(role)["compute"][-1].startswith("add reduced shard@1 #3")
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
    once = zero(1, training={"gradient_accumulation": 1})
    assert moved(once) == 1.5 * moved(plain), "an all-reduce, and an all-gather of the weights"


@pytest.mark.parametrize(
    ("stage", "overlap", "waits"),
    [(1, None, 1), (1, True, 1 + 1), (2, False, 1), (2, True, 1 + 2), (3, None, 1 + 2)],  # the norm, and every backward
)
def test_when_the_cpu_waits_for_the_gpu(stage, overlap, waits):
    role = zero(stage, overlap_comm=overlap, software={"host_issue_ns": 7000})
    assert len([item for item in role.streams[HOST] if isinstance(item, Wait)]) == waits
