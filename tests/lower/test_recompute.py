"""What is run again, when, and how long its activations live."""

from tests.lower.printer import golden, kernels, streams
from tests.lower.tiny import ALL, BLOCK, EMBEDDING, HEAD, STREAM, TOKENS, roles

# Kept by a block: inputs of norm1, qkv, norm2, gate_up and out (a stream each), q k v (3), SwiGLU's two inputs (2 x 2)
# and down's input (2), and 4 B of softmax statistics per head and token.
STATISTICS = 4 * 4 * TOKENS
KEPT = (5 + 3 + 4 + 2) * STREAM + STATISTICS
WORKING = (2 * 2 + 2) * STREAM  # gradients of two MLP-wide tensors (2 streams each) and of two streams
LOGITS, LOGITS_GRADIENT = 6 * TOKENS * 256, 4 * TOKENS * 256


def recomputed(mode):
    (role,) = roles(gpus=1, training={"recompute": mode})
    return role


def test_a_block_is_recomputed_just_before_its_backward():
    for mode in ("full", "selective"):
        assert (
            streams(recomputed(mode))["compute"][:-2]
            == golden(
                """
        compute: F0 embedding | F0 block 0 | F0 block 1 | F0 head
                 B0 head | R0 block 1 | B0 block 1 | R0 block 0 | B0 block 0 | B0 embedding   -- the head never is
                 F1 embedding | F1 block 0 | F1 block 1 | F1 head
                 B1 head | R1 block 1 | B1 block 1 | R1 block 0 | B1 block 0 | B1 embedding
            """
            )["compute"]
        )


def test_full_repeats_the_forward_and_selective_the_attention_core():
    runs = kernels(recomputed("full"))
    assert runs["R0 block 1"] == [(name, "recompute") for name, _ in runs["F0 block 1"]]
    assert len(runs["R0 block 1"]) == 11 + 4  # four weight casts
    assert kernels(recomputed("selective"))["R0 block 1"] == [("attention.core", "recompute")]
    assert all(op_class != "recompute" for op_class in dict(runs["B0 block 1"]).values())


def test_full_recompute_under_tensor_parallelism_repeats_the_exchanges():
    (role,) = roles(tp=2, training={"recompute": "full", "gradient_accumulation": 1})
    block = [token for token in streams(role)["tp"] if "block 1@0" in token]
    assert block == [
        f"attention.out.reduce block 1@0 = all_reduce {STREAM}",
        f"mlp.down.reduce block 1@0 = all_reduce {STREAM}",
        f"attention.out.reduce block 1@0 #2 = all_reduce {STREAM}",
        f"mlp.down.reduce block 1@0 #2 = all_reduce {STREAM}",
        f"mlp.gate_up.dgrad_reduce block 1@0 = all_reduce {STREAM}",
        f"attention.qkv.dgrad_reduce block 1@0 = all_reduce {STREAM}",
    ]


def memory(mode):
    (role,) = roles(gpus=1, training={"recompute": mode, "gradient_accumulation": 1})
    casts = 2 * (64 * 192 + 64 * 64 + 64 * 256 + 128 * 64)  # bf16 copies of a block's weights under autocast
    return streams(role, memory=True)["compute"], casts


def test_memory_of_one_microbatch_without_recomputation():
    found, casts = memory("none")
    head = 2 * STREAM + 2 * 64 * 256  # inputs of final norm and logits, and the cast weight
    made = {name: 4 * size for name, size in (("head", HEAD), ("block", BLOCK), ("embedding", EMBEDDING))}
    assert (
        found
        == golden(
            f"""
        compute: +{8 * TOKENS} activations | F0 embedding      -- token ids
                 +{KEPT + casts} activations | F0 block 0
                 +{KEPT + casts} activations | F0 block 1
                 +{head} activations | +{LOGITS} logits | F0 head
                 +{LOGITS_GRADIENT} backward gradients | B0 head
                 -{LOGITS_GRADIENT} backward gradients | -{LOGITS} logits | -{head} activations
                 +{made["head"]} gradients                     -- until zero_grad drops them
                 +{WORKING} backward gradients | B0 block 1
                 -{WORKING} backward gradients | -{KEPT + casts} activations | +{made["block"]} gradients
                 +{WORKING} backward gradients | B0 block 0
                 -{WORKING} backward gradients | -{KEPT + casts} activations | +{made["block"]} gradients
                 B0 embedding | -{8 * TOKENS} activations | +{made["embedding"]} gradients
                 gradient norm = {4 * ALL} | optimizer = {36 * ALL} | -{4 * ALL} gradients
        """
        )["compute"]
    )


def test_full_recomputation_keeps_the_input_only():
    found, casts = memory("full")
    again = KEPT + casts - STREAM + STREAM  # with the output, to the end of the block's backward
    assert f"+{KEPT + casts} activations" not in found
    assert (
        found[found.index("R0 block 1") - 2 :][:8]
        == golden(
            f"""
        compute: +{WORKING} backward gradients | +{again} recomputed activations
                 R0 block 1 | B0 block 1
                 -{WORKING} backward gradients | -{again} recomputed activations | -{STREAM} activations
                 +{4 * BLOCK} gradients
        """
        )["compute"]
    )


def test_selective_recomputation_frees_the_softmax_statistics():
    found, casts = memory("selective")
    assert found[2] == f"+{KEPT + casts - STATISTICS} activations"
    assert f"+{STATISTICS + STREAM} recomputed activations" in found  # the core writes its output again


def sharded_recomputation(software):
    wanted = {"training": {"recompute": "full", "gradient_accumulation": 1}, "software": {"preset": software}}
    (role,) = roles(data_parallel="fsdp", **wanted)
    found = streams(role, memory=True)["compute"]
    start = next(place for place, token in enumerate(found) if token.startswith("flatten gradients"))
    return found, found[start - 8 : start + 5]


def test_a_reentrant_checkpoint_holds_input_output_and_its_gradient_while_gradients_are_flattened():
    """Of the block's working memory four streams stay, the fourth the gradient of its input."""
    found, around = sharded_recomputation("flash")
    assert f"+{KEPT} recomputed activations" in found
    assert f"-{WORKING - 4 * STREAM} backward gradients" in around
    assert f"-{4 * STREAM} backward gradients" in around


def test_a_checkpoint_that_is_not_reentrant_holds_the_gradient_of_its_input():
    found, around = sharded_recomputation("compile")
    assert f"+{KEPT - STREAM} recomputed activations" in found
    assert f"-{WORKING - STREAM} backward gradients" in around
    assert f"-{STREAM} backward gradients" in around
