"""Orders of FSDP 2: one shard group per block, and a root group of embedding and head."""

import pytest

from simgpu.api import simulate
from simgpu.program import HOST, Collective, Issue
from tests.lower.printer import golden, held, streams
from tests.lower.tiny import ALL, BLOCK, EMBEDDING, HEAD, STREAM, roles, tiny

ROOT = EMBEDDING + HEAD


def step(elements):
    return f"""
        compute: gradient norm = {4 * elements} | <reduce gradient norm> | optimizer = {(8 + 28) * elements}
        norm: <gradient norm> | reduce gradient norm = all_reduce 4
        """


def gather(m, number, name, elements, after, repeat=""):
    """The fp32 shard is cast to bf16 beside the transfers: read 4, write 2."""
    return f"""
        dp: {f"<{after}> |" if after else ""} cast shard@{m}{number} = {6 * elements // 2}
            gather {name}@{m}{repeat} = all_gather {2 * elements}
        """


def reduction(m, number, name, elements, repeat=""):
    """In bf16, then added to the fp32 shard: read 2 + 4, write 4."""
    return f"""
        dp: <flatten gradients@{m}{number}>
            reduce gradients to {name}@{m}{repeat} = reduce_scatter {2 * elements}
            add reduced shard@{m}{number} = {10 * elements // 2}
        """


def test_fsdp_gathers_blocks_twice_and_the_root_once():
    """Two gather buffers alternate in forward; in backward the next gather is asked for before a block's backward."""
    wanted = ""
    for m, before in ((0, "begin"), (1, "after <add reduced shard@0 #3>")):
        spread, reduced = f"spread gathered weights@{m}", f"reduce gradients to norm1.weight@{m}"
        wanted += f"""
        compute: <gather embedding and head@{m}> | {spread} = {4 * ROOT} | F{m} embedding
                 <gather block 0@{m}> | {spread} #2 = {4 * BLOCK} | F{m} block 0
                 <gather block 1@{m}> | {spread} #3 = {4 * BLOCK} | F{m} block 1
                 F{m} head | B{m} head                                   -- the root is still there: not resharded
                 <gather block 1@{m} #2> | {spread} #4 = {4 * BLOCK} | B{m} block 1
                 flatten gradients@{m} = {4 * BLOCK} | B{m} block 1 #2   -- after norm1, its last gradient
                 <gather block 0@{m} #2> | {spread} #5 = {4 * BLOCK} | B{m} block 0
                 <{reduced}>                                             -- one reduction is under way at a time
                 flatten gradients@{m} #2 = {4 * BLOCK} | B{m} block 0 #2
                 B{m} embedding | <{reduced} #2>
                 flatten gradients@{m} #3 = {4 * ROOT}                   -- the root's last gradient
                 <add reduced shard@{m} #3>                              -- every backward ends with a wait
        """
        wanted += gather(m, "", "embedding and head", ROOT, before)
        wanted += gather(m, " #2", "block 0", BLOCK, "")  # asked for after the embedding, may run beside it
        wanted += gather(m, " #3", "block 1", BLOCK, spread)  # beside the embedding too, if the root's buffer is free
        wanted += gather(m, " #4", "block 1", BLOCK, f"{spread} #3", " #2")  # asked for before head's backward
        wanted += gather(m, " #5", "block 0", BLOCK, f"{spread} #4", " #2")  # beside block 1's backward
        wanted += reduction(m, "", "norm1.weight", BLOCK)  # in every micro-batch
        wanted += reduction(m, " #2", "norm1.weight", BLOCK, " #2")
        wanted += reduction(m, " #3", "embedding.weight", ROOT)
    (role,) = roles(data_parallel="fsdp")
    assert streams(role) == golden(wanted + step(ALL // 2))
    assert role.resident_bytes["weights"] == 4 * ALL // 2


def test_fsdp_that_keeps_weights_after_forward_gathers_every_group_once_per_microbatch():
    wanted = ""
    for m, before in ((0, "begin"), (1, "after <add reduced shard@0 #3>")):
        spread, reduced = f"spread gathered weights@{m}", f"reduce gradients to norm1.weight@{m}"
        wanted += f"""
        compute: <gather embedding and head@{m}> | {spread} = {4 * ROOT} | F{m} embedding
                 <gather block 0@{m}> | {spread} #2 = {4 * BLOCK} | F{m} block 0
                 <gather block 1@{m}> | {spread} #3 = {4 * BLOCK} | F{m} block 1
                 F{m} head | B{m} head
                 B{m} block 1 | flatten gradients@{m} = {4 * BLOCK} | B{m} block 1 #2
                 B{m} block 0 | <{reduced}> | flatten gradients@{m} #2 = {4 * BLOCK} | B{m} block 0 #2
                 B{m} embedding | <{reduced} #2> | flatten gradients@{m} #3 = {4 * ROOT} | <add reduced shard@{m} #3>
        """
        wanted += gather(m, "", "embedding and head", ROOT, before)
        wanted += gather(m, " #2", "block 0", BLOCK, "")
        wanted += gather(m, " #3", "block 1", BLOCK, spread)
        wanted += reduction(m, "", "norm1.weight", BLOCK)
        wanted += reduction(m, " #2", "norm1.weight", BLOCK, " #2")
        wanted += reduction(m, " #3", "embedding.weight", ROOT)
    (role,) = roles(data_parallel="fsdp", fsdp={"reshard_after_forward": False})
    assert streams(role) == golden(wanted + step(ALL // 2))


@pytest.mark.parametrize("reshard", [True, False])
def test_a_model_that_nothing_wraps_is_gathered_before_everything_and_reduced_after_everything(reshard):
    """It is the root, which is never resharded: FULL_SHARD and SHARD_GRAD_OP are the same."""
    wanted = ""
    for m, before in ((0, "begin"), (1, "after <add reduced shard@0>")):
        units = f"F{m} embedding | F{m} block 0 | F{m} block 1 | F{m} head | B{m} head | B{m} block 1"
        wanted += f"""
        compute: <gather embedding to head@{m}> | spread gathered weights@{m} = {4 * ALL}
                 {units} | B{m} block 0 | B{m} embedding
                 flatten gradients@{m} = {4 * ALL} | <add reduced shard@{m}>
        """
        wanted += gather(m, "", "embedding to head", ALL, before)
        wanted += reduction(m, "", "embedding.weight", ALL)
    (role,) = roles(data_parallel="fsdp", fsdp={"auto_wrap_policy": "no_wrap", "reshard_after_forward": reshard})
    assert streams(role) == golden(wanted + step(ALL // 2))


def test_fsdp_in_a_pipeline_gathers_once_per_step_and_reduces_in_the_last_backward():
    """Stage 0 of two under 1F1B: F0 F1 B0 B1. Its root group is the embedding alone."""
    held = EMBEDDING + BLOCK
    wanted = f"""
        compute: <gather embedding@0> | spread gathered weights@0 = {4 * EMBEDDING} | F0 embedding
                 <gather block 0@0> | spread gathered weights@0 #2 = {4 * BLOCK} | F0 block 0
                 <send F0>
                 F1 embedding | F1 block 0                          -- weights are still there
                 <recv B0> | <send F1>
                 B0 block 0 | B0 embedding                          -- no reduction: gradients stay unsharded
                 <recv B1>
                 B1 block 0 | flatten gradients@1 = {4 * BLOCK} | B1 block 0 #2
                 B1 embedding | <reduce gradients to norm1.weight@1> | flatten gradients@1 #2 = {4 * EMBEDDING}
                 <add reduced shard@1 #2>
        pp send to 1: <F0 block 0> | send F0 = {STREAM} to 1 | <F1 block 0> | send F1 = {STREAM} to 1
        pp recv from 1: <F1 block 0> | recv B0 = {STREAM} from 1 | <B0 embedding> | recv B1 = {STREAM} from 1
        """
    wanted += gather(0, "", "embedding", EMBEDDING, "begin")
    wanted += gather(0, " #2", "block 0", BLOCK, "")
    wanted += reduction(1, "", "norm1.weight", BLOCK)
    wanted += reduction(1, " #2", "embedding.weight", EMBEDDING)
    first, _ = roles(gpus=4, pp=2, data_parallel="fsdp")
    assert streams(first) == golden(wanted + step(held // 2))


def test_gathered_weights_live_from_their_gather_to_the_end_of_their_use():
    (role,) = roles(data_parallel="fsdp", training={"gradient_accumulation": 1})
    root, block = f"{2 * ROOT} gathered", f"{2 * BLOCK} gathered"
    assert [token for token in held(role, "gathered")["compute"] if "flatten" not in token][:-1] == golden(
        f"""
        compute: F0 embedding | F0 block 0 | -{block} | F0 block 1 | -{block} | F0 head
                 +{block} | B0 head                    -- block 1 comes back: as the CPU asks, after it was dropped
                 +{block} | B0 block 1 | B0 block 1 #2 | -{block}
                 B0 block 0 | B0 block 0 #2 | -{block}
                 B0 embedding | -{root}                -- the root goes last
        """
    )["compute"]
    taken = [token for token in held(role, "gathered")["dp"] if token.startswith(("+", "gather"))]
    assert (
        taken
        == golden(
            f"""
        dp: +{root} | gather embedding and head@0 = all_gather {2 * ROOT}     -- as the transfer starts
            +{block} | gather block 0@0 = all_gather {2 * BLOCK}
            +{block} | gather block 1@0 = all_gather {2 * BLOCK}
            gather block 1@0 #2 = all_gather {2 * BLOCK} | gather block 0@0 #2 = all_gather {2 * BLOCK}
        """
        )["dp"]
    )


def test_unsharded_gradients_live_from_backward_to_the_end_of_their_reduction():
    (role,) = roles(data_parallel="fsdp", training={"gradient_accumulation": 1})
    root, block = f"{2 * ROOT} buckets", f"{2 * BLOCK} buckets"  # in bf16, as backward writes them
    found = held(role, "buckets")
    copied = f"+{block} | -{block}"  # what is sent is a copy
    assert [token for token in found["compute"] if "flatten" not in token][4:-1] == golden(
        f"""
        compute: +{root} | B0 head                     -- the head's gradients; the embedding's follow
                 +{block} | B0 block 1 | {copied} | B0 block 1 #2
                 +{block} | B0 block 0 | {copied} | B0 block 0 #2 | B0 embedding
                 +{root} | -{root}
        """
    )["compute"]
    freed = [token for token in found["dp"] if token.startswith(("-", "reduce"))]
    assert [token for token in freed if token[0] == "-"] == [f"-{block}", f"-{block}", f"-{root}"]
    assert [token[0] for token in freed] == ["r", "-"] * 3, "each after its own reduction"


@pytest.mark.parametrize("kind", ["fsdp", "fsdp1"])
def test_no_sync_reduces_in_the_last_backward_and_gathers_as_ever(kind):
    assert counts(data_parallel=kind) == {"all_gather": 2 * 5, "reduce_scatter": 2 * 3}
    assert counts(data_parallel=kind, fsdp={"no_sync": True}) == {"all_gather": 2 * 5, "reduce_scatter": 3}
    (role,) = roles(data_parallel=kind, fsdp={"no_sync": True})
    kept = [token for token in held(role, "buckets")["compute"] if token.startswith("+")]
    assert kept[:3] == [f"+{2 * ROOT} buckets", f"+{2 * BLOCK} buckets", f"+{2 * BLOCK} buckets"], (
        "all gradients, whole"
    )


@pytest.mark.parametrize("kind", ["fsdp", "fsdp1"])
def test_a_tied_weight_is_gathered_with_both_its_users(kind):
    """Units of their own would leave the head without the embedding's weight."""
    (role,) = roles(
        data_parallel=kind, model={"tied_embeddings": True}, fsdp={"wrap_embedding_and_head": True},
        training={"gradient_accumulation": 1},
    )  # fmt: skip
    tied = EMBEDDING + HEAD - EMBEDDING  # once, and the norm
    gathers = [token for token in streams(role)["dp"] if token.startswith("gather embedding")]
    assert gathers == [f"gather embedding and head@0 = all_gather {2 * tied}"]


@pytest.mark.parametrize("kind", ["fsdp", "fsdp1", "hsdp"])
def test_a_single_rank_casts_and_drops_units_as_many_do(kind):
    options = {"fsdp": {"shard_size": 2}} if kind == "hsdp" else {}
    alone, many = (roles(data_parallel=kind, gpus=gpus, **(options if gpus > 2 else {}))[0] for gpus in (1, 4))
    both = [held(role, "gathered")["compute"][:-1] for role in (alone, many)]  # without the optimizer
    assert both[0] == both[1] != []


def test_in_a_pipeline_gradients_stay_unsharded_until_the_last_backward():
    first, _ = roles(gpus=4, pp=2, data_parallel="fsdp")
    found = held(first, "buckets")
    names = [token if token[0] in "BF" else token[0] for token in found["compute"]]
    following = [
        "+",
        "B0 block 0",
        "+",
        "B0 embedding",
        "B1 block 0",
        "+",
        "f",
        "-",
    ]  # the last: a copy for the reduction
    assert names[names.index("F1 block 0") + 1 :][:8] == following
    assert [token[0] for token in found["dp"] if token[0] in "r-"] == ["r", "-", "r", "-"]
    gathered = {
        stream: [token[0] for token in tokens if token.endswith(" gathered")]
        for stream, tokens in held(first, "gathered").items()
    }
    assert gathered == {"dp": ["+", "+"], "compute": ["-", "-"]}, "gathered once, dropped once"


def counts(**wanted):
    """Collectives of one step by kind."""
    found = {}
    for role in roles(**wanted):
        for item in role.streams["dp"]:
            if isinstance(item, Collective) and item.communicator == "dp":
                found[item.kind] = found.get(item.kind, 0) + 1
    return found


@pytest.mark.parametrize("kind", ["fsdp", "fsdp1"])
@pytest.mark.parametrize(
    ("layers", "accumulation", "recompute", "reshard", "gathers", "reductions"),
    [
        (36, 1, "none", True, 73, 37),  # GPT-2 Large under full sharding: 2 x 36 + 1
        (36, 1, "none", False, 37, 37),  # and under SHARD_GRAD_OP
        (80, 2, "full", True, 322, 162),  # the recomputation runs on the weights that backward gathers
    ],
)
def test_collectives_per_step(kind, layers, accumulation, recompute, reshard, gathers, reductions):
    found = counts(
        model={"layers": layers},
        training={"gradient_accumulation": accumulation, "recompute": recompute},
        data_parallel=kind,
        fsdp={"reshard_after_forward": reshard},
    )
    assert found == {"all_gather": gathers, "reduce_scatter": reductions}


def dp_stream(**fsdp):
    (role,) = roles(data_parallel="fsdp1", fsdp=fsdp, training={"gradient_accumulation": 1})
    return streams(role)


def test_fsdp1_uses_weights_where_they_arrive_and_concatenates_gradients():
    found = dp_stream()
    assert (
        found["compute"][:-3]
        == golden(
            f"""
        compute: <gather embedding and head@0> | F0 embedding
                 <gather block 0@0> | F0 block 0 | <gather block 1@0> | F0 block 1
                 F0 head | B0 head
                 <gather block 1@0 #2> | B0 block 1 | flatten gradients@0 = {4 * BLOCK} | B0 block 1 #2
                 <gather block 0@0 #2> | B0 block 0 | flatten gradients@0 #2 = {4 * BLOCK} | B0 block 0 #2
                 B0 embedding | flatten gradients@0 #3 = {4 * ROOT} | <add reduced shard@0 #3>   -- no wait before
        """
        )["compute"]
    )


def gathers_and_waits(found):
    return [token for token in found["dp"] if not token.startswith(("cast", "add"))]


def test_fsdp1_holds_gathers_until_the_second_last_unit_was_dropped():
    """In turn forward, so the CPU asks for block 1 after block 0; the first two drops are not waited for."""
    reduce = [
        f"reduce gradients to norm1.weight@0 = reduce_scatter {2 * BLOCK}",
        f"reduce gradients to norm1.weight@0 #2 = reduce_scatter {2 * BLOCK}",
        f"reduce gradients to embedding.weight@0 = reduce_scatter {2 * ROOT}",
    ]
    assert (
        gathers_and_waits(dp_stream())
        == golden(
            f"""
        dp: <begin> | gather embedding and head@0 = all_gather {2 * ROOT}
            gather block 0@0 = all_gather {2 * BLOCK} | gather block 1@0 = all_gather {2 * BLOCK}
            <F0 block 0>                                             -- dropped: one of the two may come again
            gather block 1@0 #2 = all_gather {2 * BLOCK}
            gather block 0@0 #2 = all_gather {2 * BLOCK}             -- block 1 of forward is not waited for yet
            <flatten gradients@0> | {reduce[0]}
            <flatten gradients@0 #2> | {reduce[1]}
            <flatten gradients@0 #3> | {reduce[2]}
        """
        )["dp"]
    )
    free = gathers_and_waits(dp_stream(limit_all_gathers=False))
    assert (
        free[:6]
        == golden(
            f"""
        dp: <begin> | gather embedding and head@0 = all_gather {2 * ROOT}
            gather block 0@0 = all_gather {2 * BLOCK} | gather block 1@0 = all_gather {2 * BLOCK}
            gather block 1@0 #2 = all_gather {2 * BLOCK} | gather block 0@0 #2 = all_gather {2 * BLOCK}
        """
        )["dp"]
    ), "nothing but the CPU holds them"


@pytest.mark.parametrize(
    ("prefetch", "order"),
    [  # of block 0's gather and block 1's reduction on their one stream
        ("backward_pre", ["gather block 1", "gather block 0", "reduce", "reduce", "reduce"]),
        ("backward_post", ["gather block 1", "gather block 0", "reduce", "reduce", "reduce"]),
        ("no_prefetch", ["gather block 1", "reduce", "gather block 0", "reduce", "reduce"]),
    ],
)
def test_when_fsdp1_gathers_in_backward(prefetch, order):
    dp = dp_stream(backward_prefetch=prefetch)["dp"]
    backward = [token for token in dp if token.startswith(("gather", "reduce"))][3:]
    assert [" ".join(token.split("@")[0].split()[:3]) if token[0] == "g" else "reduce" for token in backward] == order


@pytest.mark.parametrize(
    ("prefetch", "first"),
    [("backward_pre", "gather"), ("backward_post", "backward"), ("no_prefetch", "backward")],
)
def test_when_the_cpu_asks_for_the_next_gather_in_backward(prefetch, first):
    (role,) = roles(
        data_parallel="fsdp1",
        fsdp={"backward_prefetch": prefetch},
        training={"gradient_accumulation": 1},
        software={"host_issue_ns": 7000},
    )
    issued = [role.streams[i.stream][i.instruction].name for i in role.streams[HOST] if isinstance(i, Issue)]
    backward = issued[issued.index("backward head") :]
    asked = [name.split()[0] for name in backward if name in ("gather block 0", "backward block 1")]
    assert asked[0] == first
    assert ("gather block 0" in backward[: backward.index("flatten gradients") + 2]) == (prefetch != "no_prefetch")


@pytest.mark.parametrize("kind", ["fsdp", "fsdp1"])
@pytest.mark.parametrize("ahead", [False, True])
def test_forward_prefetch_asks_before_the_unit_before_is_issued(kind, ahead):
    (role,) = roles(data_parallel=kind, fsdp={"forward_prefetch": ahead}, software={"host_issue_ns": 7000})
    issued = [role.streams[i.stream][i.instruction].name for i in role.streams[HOST] if isinstance(i, Issue)]
    assert (issued.index("gather block 1") < issued.index("forward block 0")) == ahead


def test_without_a_limit_gathered_units_pile_up_as_far_as_the_cpu_runs_ahead():
    limited, free = (
        simulate(tiny(data_parallel="fsdp1", fsdp={"limit_all_gathers": limit}, model={"layers": 12})).ranks[0]
        for limit in (True, False)
    )
    assert free.peak_memory_bytes > limited.peak_memory_bytes
    assert free.memory_at_peak_bytes["gathered"] > 2 * (ROOT + 2 * BLOCK)
