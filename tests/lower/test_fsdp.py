"""Orders of FSDP 2: one shard group per block, and a root group of embedding and head."""

from tests.lower.printer import golden, streams
from tests.lower.tiny import ALL, BLOCK, EMBEDDING, HEAD, STREAM, roles

ROOT = EMBEDDING + HEAD


def step(elements):
    return f"""
        compute: gradient norm = {4 * elements} | <reduce gradient norm> | optimizer = {(8 + 28) * elements}
        norm: <gradient norm> | reduce gradient norm = all_reduce 4
        """


def gather(m, number, name, elements, after, repeat=""):
    """The fp32 shard is cast to bf16 beside the transfers: read 4, write 2."""
    return f"""
        dp: <{after}> | cast shard@{m}{number} = {6 * elements // 2}
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
    wanted = ""
    for m, before in ((0, "begin"), (1, "flatten gradients@0 #3")):
        spread = f"spread gathered weights@{m}"
        wanted += f"""
        compute: <gather embedding and head@{m}> | {spread} = {4 * ROOT} | F{m} embedding
                 <gather block 0@{m}> | {spread} #2 = {4 * BLOCK} | F{m} block 0
                 <gather block 1@{m}> | {spread} #3 = {4 * BLOCK} | F{m} block 1
                 F{m} head | B{m} head                                   -- the root is still there: not resharded
                 <gather block 1@{m} #2> | {spread} #4 = {4 * BLOCK} | B{m} block 1
                 flatten gradients@{m} = {4 * BLOCK} | B{m} block 1 #2   -- after norm1, its last gradient
                 <gather block 0@{m} #2> | {spread} #5 = {4 * BLOCK} | B{m} block 0
                 flatten gradients@{m} #2 = {4 * BLOCK} | B{m} block 0 #2
                 B{m} embedding | flatten gradients@{m} #3 = {4 * ROOT}  -- the root's last gradient
        """
        wanted += gather(m, "", "embedding and head", ROOT, before)
        wanted += gather(m, " #2", "block 0", BLOCK, spread)  # forward prefetch: beside the embedding
        wanted += gather(m, " #3", "block 1", BLOCK, f"{spread} #2")  # beside block 0
        wanted += gather(m, " #4", "block 1", BLOCK, f"F{m} head", " #2")  # backward prefetch: beside head's backward
        wanted += gather(m, " #5", "block 0", BLOCK, f"{spread} #4", " #2")  # beside block 1's
        wanted += reduction(m, "", "norm1.weight", BLOCK)  # in every micro-batch
        wanted += reduction(m, " #2", "norm1.weight", BLOCK, " #2")
        wanted += reduction(m, " #3", "embedding.weight", ROOT)
    wanted += "compute: <add reduced shard@1 #3>"  # joined once, before the norm
    (role,) = roles(data_parallel="fsdp")
    assert streams(role) == golden(wanted + step(ALL // 2))
    assert role.resident_bytes["weights"] == 4 * ALL // 2


def test_fsdp_that_keeps_weights_after_forward_gathers_every_group_once_per_microbatch():
    wanted = ""
    for m, before in ((0, "begin"), (1, "flatten gradients@0 #3")):
        spread = f"spread gathered weights@{m}"
        wanted += f"""
        compute: <gather embedding and head@{m}> | {spread} = {4 * ROOT} | F{m} embedding
                 <gather block 0@{m}> | {spread} #2 = {4 * BLOCK} | F{m} block 0
                 <gather block 1@{m}> | {spread} #3 = {4 * BLOCK} | F{m} block 1
                 F{m} head | B{m} head
                 B{m} block 1 | flatten gradients@{m} = {4 * BLOCK} | B{m} block 1 #2
                 B{m} block 0 | flatten gradients@{m} #2 = {4 * BLOCK} | B{m} block 0 #2
                 B{m} embedding | flatten gradients@{m} #3 = {4 * ROOT}
        """
        wanted += gather(m, "", "embedding and head", ROOT, before)
        wanted += gather(m, " #2", "block 0", BLOCK, spread)
        wanted += gather(m, " #3", "block 1", BLOCK, f"{spread} #2")
        wanted += reduction(m, "", "norm1.weight", BLOCK)
        wanted += reduction(m, " #2", "norm1.weight", BLOCK, " #2")
        wanted += reduction(m, " #3", "embedding.weight", ROOT)
    wanted += "compute: <add reduced shard@1 #3>"
    (role,) = roles(data_parallel="fsdp", fsdp={"reshard_after_forward": False})
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
                 B1 embedding | flatten gradients@1 #2 = {4 * EMBEDDING}
                 <add reduced shard@1 #2>
        pp send forward: <F0 block 0> | send F0 = {STREAM} to 1 | <F1 block 0> | send F1 = {STREAM} to 1
        pp recv backward: <F1 block 0> | recv B0 = {STREAM} from 1 | <B0 embedding> | recv B1 = {STREAM} from 1
        """
    wanted += gather(0, "", "embedding", EMBEDDING, "begin")
    wanted += gather(0, " #2", "block 0", BLOCK, "spread gathered weights@0")
    wanted += reduction(1, "", "norm1.weight", BLOCK)
    wanted += reduction(1, " #2", "embedding.weight", EMBEDDING)
    first, _ = roles(gpus=4, pp=2, data_parallel="fsdp")
    assert streams(first) == golden(wanted + step(held // 2))


def held(role, category):
    """Where memory of a category is taken and given back, by stream, without the sizes of everything else."""
    found = {}
    for stream, tokens in streams(role, memory=True).items():
        kept = [token for token in tokens if token[0] not in "+-<" or token.endswith(f" {category}")]
        if any(token.endswith(f" {category}") for token in kept):
            found[stream] = [token for token in kept if not token.startswith(("spread", "cast", "gradient norm"))]
    return found


def test_gathered_weights_live_from_their_gather_to_the_end_of_their_use():
    (role,) = roles(data_parallel="fsdp", training={"gradient_accumulation": 1})
    root, block = f"{2 * ROOT} gathered", f"{2 * BLOCK} gathered"
    assert [token for token in held(role, "gathered")["compute"] if "flatten" not in token][:-1] == golden(
        f"""
        compute: +{root} | +{block} | F0 embedding     -- block 0 comes while the embedding runs
                 +{block} | F0 block 0 | -{block}      -- two blocks are live at most
                 F0 block 1 | -{block} | F0 head
                 +{block} | B0 head                    -- block 1 comes back
                 +{block} | B0 block 1 | B0 block 1 #2 | -{block}
                 B0 block 0 | B0 block 0 #2 | -{block}
                 B0 embedding | -{root}                -- the root goes last
        """
    )["compute"]


def test_unsharded_gradients_live_from_backward_to_the_end_of_their_reduction():
    (role,) = roles(data_parallel="fsdp", training={"gradient_accumulation": 1})
    root, block = f"{2 * ROOT} buckets", f"{2 * BLOCK} buckets"  # in bf16, as backward writes them
    found = held(role, "buckets")
    assert [token for token in found["compute"] if "flatten" not in token][4:-1] == golden(
        f"""
        compute: +{root} | B0 head                     -- the head's gradients; the embedding's follow
                 +{block} | B0 block 1 | B0 block 1 #2
                 +{block} | B0 block 0 | B0 block 0 #2 | B0 embedding
        """
    )["compute"]
    freed = [token for token in found["dp"] if token.startswith(("-", "reduce"))]
    assert [token for token in freed if token[0] == "-"] == [f"-{block}", f"-{block}", f"-{root}"]
    assert [token[0] for token in freed] == ["r", "-"] * 3, "each after its own reduction"


def test_in_a_pipeline_gradients_stay_unsharded_until_the_last_backward():
    first, _ = roles(gpus=4, pp=2, data_parallel="fsdp")
    found = held(first, "buckets")
    names = [token if token[0] in "BF" else token[0] for token in found["compute"]]
    assert names[names.index("F1 block 0") + 1 :][:6] == ["+", "B0 block 0", "+", "B0 embedding", "B1 block 0", "f"]
    assert [token[0] for token in found["dp"] if token[0] in "r-"] == ["r", "-", "r", "-"]
    gathered = [token for token in held(first, "gathered")["compute"] if token.endswith(" gathered")]
    assert [token[0] for token in gathered] == ["+", "+", "-", "-"], "gathered once, dropped once"
