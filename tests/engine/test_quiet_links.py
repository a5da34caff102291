"""Blocks whose transfers share links with streams that are idle meanwhile, or that the CPU has issued before."""

import pytest

from simgpu.engine import play, quiet_links
from simgpu.fold import fold
from simgpu.script import pieces_of
from tests.engine.test_blocks import PIPELINE, played, program_of, same, taken, written_out  # noqa: F401  (fixtures)

NODE = {
    "model": PIPELINE["model"],
    "cluster": {"topology": "dgx-h100", "nodes": 1, "gpus": 8},
    "training": {"sequence_length": 256, "micro_batch_size": 1, "gradient_accumulation": 4, "precision": "bf16"},
    "parallel": {"tp": 2, "dp": 4, "data_parallel": "distributed_optimizer", "sequence_parallel": True},
    "distributed_optimizer": {"overlap_grad_reduce": True, "overlap_param_gather": True},
}
INTERLEAVED = {
    "model": PIPELINE["model"],
    "cluster": {"topology": "dgx-h100", "nodes": 4, "gpus": 32},
    "parallel": {
        "tp": 8,
        "pp": 4,
        "dp": 1,
        "virtual_stages": 2,
        "schedule": "interleaved_1f1b",
        "overlap_p2p": True,
        "sequence_parallel": True,
    },
    "training": PIPELINE["training"] | {"gradient_accumulation": 8},
}


def uses(subject, steps):
    """Blocks that all ranks come to in so many steps."""
    each = [sum(piece.use is not None for piece in pieces_of(role.streams["compute"])) for role in subject.roles]
    return steps * sum(each[rank.role] for rank in subject.ranks)


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("parallel", [{}, {"tp": 2, "dp": 2, "cp": 2}, {"tp": 4, "dp": 2}])
def test_passes_between_those_that_overlap_with_data_parallel_traffic_are_blocks(taken, parallel, folded):  # noqa: F811
    """Tensor and data parallel groups share the ports of their GPUs; only first and last passes go on beside both."""
    whole = program_of(NODE | {"parallel": NODE["parallel"] | parallel, "software": {"host_issue_ns": 0}})
    subject = fold(whole) if folded else whole
    same(play(subject), play(written_out(subject)))
    if folded or "cp" not in parallel:
        assert len(taken) > uses(subject, 2) / 2


def test_a_block_beside_a_transfer_on_its_links_is_played(monkeypatch, taken):  # noqa: F811
    """With every link taken for quiet the same Program goes another way: the guard is what makes them agree."""
    large = {"layers": 4, "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 16384, "vocab": 2048}
    training = NODE["training"] | {"sequence_length": 2048}
    subject = fold(program_of(NODE | {"model": large, "training": training, "software": {"host_issue_ns": 0}}))
    guarded = play(subject)
    monkeypatch.setattr("simgpu.engine.cast.guard", lambda *of, several: quiet_links.NOTHING)
    with pytest.raises(AssertionError):
        same(play(subject), guarded)


def test_passes_that_the_cpu_issued_ahead_of_a_message_are_blocks(taken, played):  # noqa: F811
    """A receive that is posted early makes the CPU issue the pass before it, which is taken all the same."""
    subject = fold(program_of(INTERLEAVED))
    timeline = play(subject)
    came, found = uses(subject, len(timeline.step_ends_ns)), len(taken)
    same(timeline, play(written_out(subject)))
    assert found > 0.7 * came
    assert len(played) < 0.6 * found, "what comes again in the same state is not played again"
