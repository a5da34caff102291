"""Orders of pipeline stages: who sends what when, and who waits for it."""

import pytest

from tests.lower.printer import golden, streams
from tests.lower.tiny import BLOCK, EMBEDDING, HEAD, STREAM, roles


def step(elements):
    """Megatron: fp32 main gradients (cleared), bf16 weights, fp32 master; the norm is joined over the stages."""
    return f"""
        compute: gradient norm = {4 * elements} | <reduce gradient norm> | optimizer = {(8 + 30 + 4) * elements}
        norm: <gradient norm> | reduce gradient norm = all_reduce 4
        """


FIRST, LAST = step(EMBEDDING + BLOCK), step(BLOCK + HEAD)


def test_1f1b_posts_a_send_with_the_next_receive_and_waits_for_both():
    first, last = roles(pp=2)
    assert streams(first) == golden(
        f"""
        compute: F0 embedding | F0 block 0 | <send F0>       -- warm-up: send_forward, waited for
                 F1 embedding | F1 block 0
                 <recv B0> | <send F1>                       -- send_forward_recv_backward, both waited for
                 B0 block 0 | B0 embedding                   -- nothing to send
                 <recv B1> | B1 block 0 | B1 embedding
        pp send to 1: <F0 block 0> | send F0 = {STREAM} to 1 | <F1 block 0> | send F1 = {STREAM} to 1
        pp recv from 1: <F1 block 0> | recv B0 = {STREAM} from 1   -- posted with the send of F1
                          <B0 embedding> | recv B1 = {STREAM} from 1
        {FIRST}
        """
    )
    assert streams(last) == golden(
        f"""
        compute: <recv F0> | F0 block 1 | F0 head | B0 head | B0 block 1
                 <recv F1> | <send B0>                       -- send_backward_recv_forward
                 F1 block 1 | F1 head | B1 head | B1 block 1
                 <send B1>                                   -- before the optimizer
        pp recv from 0: <begin> | recv F0 = {STREAM} from 0 | <B0 block 1> | recv F1 = {STREAM} from 0
        pp send to 0: <B0 block 1> | send B0 = {STREAM} to 0 | <B1 block 1> | send B1 = {STREAM} to 0
        {LAST}
        """
    )


def test_overlap_p2p_posts_receives_ahead_and_never_waits_for_sends():
    first, last = roles(pp=2, overlap_p2p=True)
    assert streams(first) == golden(
        f"""
        compute: F0 embedding | F0 block 0 | F1 embedding | F1 block 0
                 <recv B0> | B0 block 0 | B0 embedding
                 <recv B1> | B1 block 0 | B1 embedding
        pp send to 1: <F0 block 0> | send F0 = {STREAM} to 1 | <F1 block 0> | send F1 = {STREAM} to 1
        pp recv from 1: <F0 block 0> | recv B0 = {STREAM} from 1    -- while F1 runs
                        <F1 block 0> | recv B1 = {STREAM} from 1    -- while B0 runs
        {FIRST}
        """
    )
    assert streams(last) == golden(
        f"""
        compute: <recv F0> | F0 block 1 | F0 head | B0 head | B0 block 1
                 <recv F1> | F1 block 1 | F1 head | B1 head | B1 block 1
        pp recv from 0: recv F0 = {STREAM} from 0                   -- after nothing of this step
                        <F0 head> | recv F1 = {STREAM} from 0       -- while B0 runs
        pp send to 0: <B0 block 1> | send B0 = {STREAM} to 0 | <B1 block 1> | send B1 = {STREAM} to 0
        {LAST}
        """
    )


def test_gpipe_runs_all_forwards_first():
    _, last = roles(pp=2, schedule="gpipe")
    assert streams(last) == golden(
        f"""
        compute: <recv F0> | F0 block 1 | F0 head
                 <recv F1> | F1 block 1 | F1 head            -- the last stage sends nothing forward
                 B0 head | B0 block 1 | <send B0>            -- waited for before the next backward
                 B1 head | B1 block 1 | <send B1>
        pp recv from 0: <begin> | recv F0 = {STREAM} from 0 | <F0 head> | recv F1 = {STREAM} from 0
        pp send to 0: <B0 block 1> | send B0 = {STREAM} to 0 | <B1 block 1> | send B1 = {STREAM} to 0
        {LAST}
        """
    )


def test_a_middle_stage_has_both_neighbours():
    """1F1B with three micro-batches on stage 1 of three: F0 F1 B0 F2 B1 B2."""
    middle = roles(gpus=3, pp=3, model={"layers": 3}, training={"gradient_accumulation": 3})[1]
    assert (
        streams(middle)["compute"][:-3]
        == golden(
            """
        compute: <recv F0> | F0 block 1
                 <recv F1> | <send F0> | F1 block 1          -- F0 left while F1 came in
                 <recv B0> | <send F1> | B0 block 1
                 <recv F2> | <send B0> | F2 block 1
                 <recv B1> | <send F2> | B1 block 1
                 <recv B2> | <send B1> | B2 block 1 | <send B2>
        """
        )["compute"]
    )


@pytest.mark.parametrize(("sequence_parallel", "size"), [(False, STREAM), (True, STREAM // 2)])
def test_a_message_is_the_residual_stream_of_one_rank(sequence_parallel, size):
    first = roles(gpus=4, tp=2, pp=2, sequence_parallel=sequence_parallel)[0]
    assert streams(first)["pp send to 1"][1] == f"send F0 = {size} to 1"
