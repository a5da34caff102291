"""Orders under tensor parallelism: which exchanges a rank makes, which work hides them, what waits for them."""

import pytest

from tests.lower.printer import golden, kernels, streams
from tests.lower.tiny import DOWN, EMBEDDING, GATE_UP, NORM, OUT, QKV, STREAM, TOKENS, roles

LOSS = 4 * TOKENS  # one fp32 number per token
HELD = 2 * ((QKV + OUT + GATE_UP + DOWN) // 2 + 2 * NORM) + 2 * EMBEDDING // 2 + NORM  # matrices halved, norms whole


def step(before=""):
    return f"""
        compute: {before} gradient norm = {4 * HELD} | <reduce gradient norm> | optimizer = {(8 + 30 + 4) * HELD}
        norm: <gradient norm> | reduce gradient norm = all_reduce 4
        """


def exchange(unit, m, tag, kind, after, size=STREAM):
    return f"""
        tp: <{after}> | {tag} {unit}@{m} = {kind} {size}
        """


def block_forward(b, m):
    run = f"F{m} block {b}"
    return f"""
        compute: {run} | <attention.out.reduce block {b}@{m}>      -- partial sums of the output projection
                 {run} #2 | <mlp.down.reduce block {b}@{m}>        -- and of down
                 {run} #3                                          -- residual
        """ + "".join(
        exchange(f"block {b}", m, tag, "all_reduce", after)
        for tag, after in (("attention.out.reduce", run), ("mlp.down.reduce", f"{run} #2"))
    )


def block_backward(b, m):
    run = f"B{m} block {b}"
    return f"""
        compute: {run} | {run} #2                                  -- #2: gate_up's wgrad, under its dgrad's reduction
                 <mlp.gate_up.dgrad_reduce block {b}@{m}>
                 {run} #3 | {run} #4                               -- #4: qkv's wgrad, likewise
                 <attention.qkv.dgrad_reduce block {b}@{m}>
                 {run} #5
        """ + "".join(
        exchange(f"block {b}", m, tag, "all_reduce", after)
        for tag, after in (("mlp.gate_up.dgrad_reduce", run), ("attention.qkv.dgrad_reduce", f"{run} #3"))
    )


def test_tensor_parallel_order():
    wanted = ""
    for m in (0, 1):
        wanted += f"""
        compute: F{m} embedding | <embedding.reduce embedding@{m}>  -- each rank knows half the vocabulary
        """
        wanted += exchange("embedding", m, "embedding.reduce", "all_reduce", f"F{m} embedding")
        wanted += block_forward(0, m) + block_forward(1, m)
        wanted += f"""
        compute: F{m} head | <loss.max head@{m}> | F{m} head #2 | <loss.target head@{m}>
                 F{m} head #3 | <loss.sum head@{m}> | F{m} head #4  -- softmax over a split vocabulary
                 B{m} head | B{m} head #2 | <head.dgrad_reduce head@{m}> | B{m} head #3
        """
        for tag, after in (("max", ""), ("target", " #2"), ("sum", " #3")):
            wanted += exchange("head", m, f"loss.{tag}", "all_reduce", f"F{m} head{after}", LOSS)
        wanted += exchange("head", m, "head.dgrad_reduce", "all_reduce", f"B{m} head")
        wanted += block_backward(1, m) + block_backward(0, m)
        wanted += f"compute: B{m} embedding"
    (role,) = roles(tp=2)
    assert streams(role) == golden(wanted + step())
    runs = kernels(role)
    assert runs["B0 block 0 #2"][0][0] == "mlp.gate_up.wgrad"
    assert runs["B0 block 0 #4"][0][0] == "attention.qkv.wgrad"


def scattered_forward(b, m):
    run = f"F{m} block {b}"
    tags = ("attention.qkv.gather", "attention.out.scatter", "mlp.gate_up.gather", "mlp.down.scatter")
    text = f"compute: {run}\n"
    for number, tag in enumerate(tags, start=1):  # norms on own tokens, matrices on all of them
        before = run if number == 1 else f"{run} #{number}"
        text += f"compute: <{tag} block {b}@{m}> | {run} #{number + 1}\n"
        text += exchange(f"block {b}", m, tag, "all_gather" if "gather" in tag else "reduce_scatter", before)
    return text


def scattered_backward(b, m):
    """Half a block: gather the output's gradient (waited for), regather the input under the dgrad, scatter the dgrad
    under the wgrad."""
    run, text = f"B{m} block {b}", ""
    for row, column, first, last in (
        ("mlp.down", "mlp.gate_up", f"<B{m} {'head' if b == 1 else 'block 1'} #{4 if b == 1 else 8}>", 0),
        ("attention.out", "attention.qkv", f"<{run} #4>", 4),
    ):
        piece = [run if last + i == 1 else f"{run} #{last + i}" for i in (1, 2, 3, 4)]
        text += f"""
        compute: <{row}.gradient_gather block {b}@{m}> | {piece[0]}      -- row's dgrad and wgrad, activation
                 {piece[1]} | <{column}.regather block {b}@{m}>          -- column's dgrad hides the gather
                 {piece[2]} | <{column}.dgrad_scatter block {b}@{m}>     -- its wgrad needs the input, hides the scatter
                 {piece[3]}                                              -- norm
        tp: {first} | {row}.gradient_gather block {b}@{m} = all_gather {STREAM}
            <{piece[0]}> | {column}.regather block {b}@{m} = all_gather {STREAM}
            <after <{column}.regather block {b}@{m}>>                    -- and so after the dgrad
            {column}.dgrad_scatter block {b}@{m} = reduce_scatter {STREAM}
        """
    return text


def test_sequence_parallel_order():
    wanted = ""
    for m in (0, 1):
        wanted += f"""
        compute: F{m} embedding | <embedding.scatter embedding@{m}>
        tp: <F{m} embedding> | embedding.scatter embedding@{m} = reduce_scatter {STREAM}
        """
        wanted += scattered_forward(0, m) + scattered_forward(1, m)
        wanted += f"""
        compute: F{m} head | <head.gather head@{m}> | F{m} head #2 | <loss.max head@{m}> | F{m} head #3
                 <loss.target head@{m}> | F{m} head #4 | <loss.sum head@{m}> | F{m} head #5
                 B{m} head | B{m} head #2 | <head.regather head@{m}>     -- loss, then dgrad over the regather
                 B{m} head #3 | <head.dgrad_scatter head@{m}> | B{m} head #4
        tp: <F{m} head> | head.gather head@{m} = all_gather {STREAM}
            <F{m} head #2> | loss.max head@{m} = all_reduce {LOSS}
            <F{m} head #3> | loss.target head@{m} = all_reduce {LOSS}
            <F{m} head #4> | loss.sum head@{m} = all_reduce {LOSS}
            <B{m} head> | head.regather head@{m} = all_gather {STREAM}
            <after <head.regather head@{m}>>                             -- and so after the dgrad
            head.dgrad_scatter head@{m} = reduce_scatter {STREAM}
        """
        wanted += scattered_backward(1, m) + scattered_backward(0, m)
        wanted += f"""
        compute: <embedding.gradient_gather embedding@{m}> | B{m} embedding
        tp: <B{m} block 0 #8> | embedding.gradient_gather embedding@{m} = all_gather {STREAM}
        """
    wanted += f"""
        tp: <B1 embedding> | reduce norm gradients = all_reduce {4 * 5 * NORM}  -- each rank saw half the tokens
        """
    (role,) = roles(tp=2, sequence_parallel=True)
    assert streams(role) == golden(wanted + step("<reduce norm gradients> |"))


@pytest.mark.parametrize(
    ("wanted", "size"),
    [
        ({"gpus": 2, "tp": 2}, None),  # every rank saw all tokens
        ({"gpus": 2, "tp": 2, "sequence_parallel": True}, 4 * 5 * NORM),
        ({"gpus": 4, "tp": 2, "data_parallel": "ddp", "sequence_parallel": True}, 4 * 5 * NORM),
        ({"gpus": 4, "tp": 2, "data_parallel": "fsdp", "sequence_parallel": True}, 4 * 5 * NORM // 2),  # its shard
        ({"gpus": 4, "tp": 2, "pp": 2, "sequence_parallel": True}, 4 * 2 * NORM),  # stage 0 has one block
    ],
)
def test_norm_gradients_are_summed_under_sequence_parallelism_only(wanted, size):
    found = [token for token in streams(roles(**wanted)[0])["tp"] if token.startswith("reduce norm gradients")]
    assert found == ([] if size is None else [f"reduce norm gradients = all_reduce {size}"])
