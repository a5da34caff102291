"""Numbers of a run that can be worked out on paper."""

from dataclasses import replace
from fractions import Fraction

import pytest

from simgpu.api import simulate
from simgpu.engine import play
from simgpu.metrics.facts import RunFacts
from simgpu.metrics.summary import summarize
from simgpu.metrics.verdict import FURTHER, describe_remedies, describe_run
from simgpu.program import Record, Wait
from simgpu.remedies import memory_remedies
from tests.lower.tiny import TOKENS, tiny
from tests.lower.tiny import program as tiny_program
from tests.programs import GIB, all_reduce, cost, program, reduce_key, role, work


def facts(**known):
    return RunFacts(
        **{
            "name": "run",
            "model": "m",
            "tokens": 0,
            "model_flops": 0,
            "hardware_flops": 0,
            "peak_flops_per_s": 1e12,
            **known,
        }
    )


def reduced(before_ns, beside_ns, transfer_ns):
    """Compute, then a reduction beside more compute; both must end before the next step."""
    only = role(
        {
            "compute": [work(before_ns), Record(1), work(beside_ns), Wait(2)],
            "dp": [Wait(1), all_reduce(10), Record(2)],
        }
    )
    return play(program([only], [0, 0], [("dp", (0, 1))], {(0, reduce_key(10)): cost(0, transfer_ns)}))


@pytest.mark.parametrize(
    ("beside", "transfer", "ratio"), [(15, 60, 0.25), (60, 60, 1.0), (0, 60, 0.0), (90, 60, 1.0), (45, 60, 0.75)]
)
def test_overlap_ratio_is_the_share_of_communication_under_which_kernels_ran(beside, transfer, ratio):
    assert summarize(reduced(100, beside, transfer), facts()).overlap_ratio == ratio


def test_overlap_ratio_without_communication_is_zero():
    assert summarize(play(program([role({"compute": [work(10)]})], [0], [], {})), facts()).overlap_ratio == 0


def test_tokens_per_second_mfu_and_hfu_come_from_the_step():
    """A step of 100 + 60 ns on two GPUs."""
    report = summarize(
        reduced(100, 0, 60),
        facts(tokens=32, model_flops=64_000, hardware_flops=80_000, peak_flops_per_s=1e12, train_tokens=10**9),
    )
    assert report.step_time_ns == 160
    assert report.tokens_per_s == pytest.approx(32 / 160e-9)
    assert report.tokens_per_s_per_gpu == pytest.approx(16 / 160e-9)
    assert report.mfu == pytest.approx(64_000 / (2 * 160e-9 * 1e12))
    assert report.hfu == pytest.approx(80_000 / (2 * 160e-9 * 1e12))
    assert report.hours == pytest.approx(10**9 / 32 * 160e-9 / 3600)
    assert report.gpu_hours == pytest.approx(2 * report.hours)


def test_a_simulated_step_counts_the_tokens_of_all_replicas():
    report = simulate(tiny(data_parallel="ddp"))
    assert report.tokens_per_s == pytest.approx(2 * 2 * TOKENS / report.step_time_s)  # two ranks, two micro-batches
    assert report.tokens_per_s_per_gpu == pytest.approx(report.tokens_per_s / 2)
    pipeline = simulate(tiny(pp=2))
    assert pipeline.tokens_per_s == pytest.approx(2 * TOKENS / pipeline.step_time_s)  # one replica


# Per token: 6 FLOPs per weight in matrix products, and 12 L s a d for attention.
BLOCK_WEIGHTS = 64 * 192 + 64 * 64 + 64 * 256 + 128 * 64
MODEL = 6 * (2 * BLOCK_WEIGHTS + 256 * 64) + 12 * 2 * TOKENS * 64
ATTENTION_AGAIN, BLOCKS_AGAIN = 4 * 2 * TOKENS * 64, 2 * 2 * BLOCK_WEIGHTS


@pytest.mark.parametrize(
    ("recompute", "hardware"),
    [("none", MODEL), ("selective", MODEL + ATTENTION_AGAIN), ("full", MODEL + ATTENTION_AGAIN + BLOCKS_AGAIN)],
)
def test_hfu_counts_what_is_computed_again(recompute, hardware):
    report = simulate(tiny(gpus=1, training={"recompute": recompute}))
    assert report.mfu == pytest.approx(2 * TOKENS * MODEL / (312e12 * report.step_time_s))
    assert report.hfu / report.mfu == pytest.approx(Fraction(hardware, MODEL))


def test_recomputation_has_a_class_of_its_own_as_long_as_the_blocks_forward():
    plain, full = (simulate(tiny(gpus=1, training={"recompute": mode})) for mode in ("none", "full"))
    (role_of,) = tiny_program(gpus=1).roles
    forward = sum(
        item.duration_ns
        for item in role_of.streams["compute"]
        if getattr(item, "phase", "") == "forward" and item.unit.startswith("block")
    )
    assert plain.breakdown_ns["compute.recompute"] == 0
    assert full.breakdown_ns["compute.recompute"] == forward > 0
    assert full.step_time_ns == plain.step_time_ns + forward


def of_size(share, **known):
    only = role({"compute": [work(10)]}, resident={"weights": int(share * GIB)})
    return summarize(play(program([only], [0], [], {})), facts(**known))


@pytest.mark.parametrize(("share", "warned"), [(0.5, False), (0.92, False), (0.94, True), (1.0, True), (1.01, False)])
def test_a_nearly_full_card_is_warned_about_and_a_full_one_does_not_fit(share, warned):
    report = of_size(share)
    assert any("allocation retries" in text for text in report.warnings) == warned
    assert report.fits == (share <= 1)


def test_the_warning_says_how_full_and_where():
    (warning,) = of_size(0.95).warnings
    assert warning.startswith("memory is 95% full on rank 0: above 93%")


def test_a_step_that_is_not_steady_is_warned_about():
    settled = play(program([role({"compute": [work(10)]})], [0], [], {}))
    assert summarize(settled, facts()).warnings == ()
    (warning,) = summarize(replace(settled, steady=False), facts()).warnings
    assert warning.startswith("no two successive steps took equally long")


def test_warnings_of_the_scenario_come_along():
    assert of_size(0.5, warnings=("one",)).warnings == ("one",)


def test_remedies_are_named_only_when_it_does_not_fit():
    full, fitting = of_size(1.01), of_size(0.5)
    assert describe_run(full, [("shrink it", fitting)]).endswith(". Fits with shrink it (0.5 GiB)")
    assert "shrink it" not in describe_run(of_size(0.99), [("shrink it", fitting)])


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ((0.5, 1.2, 0.4), ". Fits with first (0.5 GiB)"),  # single changes before all together
        ((0.5, 0.6, 0.4), ". Fits with first (0.5 GiB)"),
        ((1.4, 1.2, 0.9), ". Fits with both (0.9 GiB)"),
        (
            (1.4, 1.2, 1.1),
            f". Even both needs 1.1 GiB: {FURTHER}",
        ),
    ],
)
def test_single_remedies_come_before_all_of_them_together(shares, sentence):
    tried = list(zip(("first", "second", "both"), map(of_size, shares), strict=True))
    assert describe_remedies(tried) == sentence


SHARD, SMALLER, AGAIN = "parallel.data_parallel: fsdp", "training.micro_batch_size: 1", "training.recompute: full"
FULL = {"recompute": "full"}


@pytest.mark.parametrize(
    ("wanted", "lines"),
    [
        ({"gpus": 1, "training": FULL}, []),
        ({"data_parallel": "ddp", "training": FULL}, [SHARD]),
        ({"data_parallel": "zero2", "training": FULL}, [SHARD]),
        ({"data_parallel": "zero3", "training": FULL}, []),
        ({"data_parallel": "fsdp", "training": FULL}, []),
        ({"gpus": 1, "training": {"micro_batch_size": 2, **FULL}}, [SMALLER]),
        ({"gpus": 1}, [AGAIN]),
        ({"gpus": 1, "training": {"recompute": "selective"}}, [AGAIN]),
        ({"tp": 2}, [AGAIN]),
        ({"data_parallel": "ddp"}, [SHARD, AGAIN, f"{SHARD} with {AGAIN}"]),
    ],
)
def test_remedies_are_levers_that_are_not_pulled_yet(wanted, lines):
    assert [remedy.text for remedy in memory_remedies(tiny(**wanted))] == lines


def test_smaller_micro_batches_keep_the_global_batch():
    (remedy,) = memory_remedies(tiny(gpus=1, training={"micro_batch_size": 4, **FULL}))
    assert (remedy.case.training.micro_batch_size, remedy.case.training.accumulation) == (1, 8)
