"""More GPUs that are slower, and the bandwidth at which they would not be."""

from dataclasses import replace

import pytest

from simgpu.api import run, simulate
from simgpu.break_even import break_even, limiting_link, with_faster_links
from simgpu.config import load_cases

SLOW = {
    "name": "slow network",
    "model": "gpt2",
    "cluster": {"topology": "4x-rtx3090-10gbe"},
    "training": {"sequence_length": 512, "micro_batch_size": 1, "gradient_accumulation": 1, "precision": "fp16"},
    "parallel": {"data_parallel": "ddp"},
    "variants": [{"name": "one box"}, {"name": "two boxes", "set": {"cluster.nodes": 2}}],
}


@pytest.fixture(scope="module")
def cases():
    return load_cases(SLOW)


def test_at_the_break_even_both_are_as_fast(cases):
    one, two = (simulate(case) for case in cases)
    assert two.tokens_per_s < one.tokens_per_s
    found = break_even(cases[1], two, one.tokens_per_s, simulate)
    assert found.kind == "network"
    factor = found.needed_bytes_per_s / found.bytes_per_s
    faster, just_slower = (
        replace(cases[1], cluster=with_faster_links(cases[1].cluster, "network", scale))
        for scale in (factor, factor / 1.03)
    )
    assert simulate(faster).tokens_per_s >= one.tokens_per_s > simulate(just_slower).tokens_per_s


def test_a_speed_out_of_reach_has_no_break_even(cases):
    two = simulate(cases[1])
    assert break_even(cases[1], two, 1e12, simulate).needed_bytes_per_s is None


def test_links_of_other_kinds_keep_their_speed(cases):
    before = cases[1].cluster
    after = with_faster_links(before, "network", 3)
    for old, new in zip(before.links, after.links, strict=True):
        assert new.bytes_per_s == old.bytes_per_s * (3 if old.kind == "network" else 1)
    assert after.memo == {}


def test_runs_that_scale_get_no_warning():
    for report in run("four_vs_eight"):
        assert not [warning for warning in report.warnings if "stay with" in warning]


def test_one_gpu_has_no_limiting_link():
    cluster, parallel = {"topology": "4x-rtx3090-10gbe", "gpus": 1}, {"data_parallel": "none"}
    (alone,) = run({**SLOW, "cluster": cluster, "parallel": parallel, "variants": [{"name": "alone"}]})
    assert limiting_link(alone) is None
