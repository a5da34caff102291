"""``perturb.slow_ranks``, ``jitter`` and ``seed`` of a scenario, from the file to the step."""

import pytest

import simgpu
from simgpu.errors import ScenarioError
from simgpu.metrics.slowest import describe_classes

SCENARIO = {
    "model": "gpt2",
    "cluster": {"topology": "dgx-a100", "nodes": 2},
    "training": {"sequence_length": 512, "micro_batch_size": 2, "gradient_accumulation": 1, "precision": "bf16"},
    "parallel": {"data_parallel": "ddp"},
    "software": {"host_issue_ns": 0},
}


def run(fold=True, **perturb):
    (report,) = simgpu.run({**SCENARIO, **({"perturb": perturb} if perturb else {})}, fold=fold)
    return report


@pytest.fixture(scope="module")
def plain():
    return run()


def test_a_slow_rank_slows_all_and_is_a_class_of_its_own(plain):
    slow = run(slow_ranks={"1:2": 1.25})
    assert 1.1 * plain.step_time_ns < slow.step_time_ns < 1.25 * plain.step_time_ns
    assert (describe_classes(plain), describe_classes(slow)) == ("16 ranks in 1 class", "16 ranks in 2 classes")
    assert [rank.rank for rank in slow.ranks] == [0, 10]
    assert slow.step_time_ns == run(fold=False, slow_ranks={10: 1.25}).step_time_ns


def test_jitter_is_reproducible_and_unfolds(plain):
    one, again, other = (run(jitter=0.05, seed=seed) for seed in (1, 1, 2))
    assert one.step_time_ns == again.step_time_ns != other.step_time_ns
    assert plain.step_time_ns < one.step_time_ns < 1.1 * plain.step_time_ns
    assert describe_classes(one) == "16 ranks, each simulated by itself"


@pytest.mark.parametrize(
    ("perturb", "words"),
    [
        (
            {"slow_ranks": {16: 1.2}},
            "slow_ranks[16] = 1.2: is no rank of this run; allowed: a rank from 0 to 15, or NODE",
        ),
        ({"slow_ranks": {"2:0": 1.2}}, "slow_ranks.2:0 = 1.2: is no rank of this run"),
        ({"slow_ranks": {"0:8": 1.2}}, "NODE:GPU up to 1:7"),
        ({"slow_ranks": {"gpu3": 1.2}}, "is no rank of this run"),
        ({"slow_ranks": {3: 0.5}}, "is below 1; allowed: 1 and above"),
        ({"slow_ranks": {3: 1.5, "0:3": 2}}, "slow_ranks.0:3 = 2.0: is a rank that is named twice"),
        ({"slow_ranks": [3]}, "is not a mapping of fields"),
        ({"jitter": -0.1}, "perturb.jitter = -0.1: is negative"),
        ({"jitter": 1e9}, "perturb.jitter = 1000000000.0: is too large to be meant; allowed: at most 1,000"),
        ({"slow_ranks": {3: 1e12}}, "is too large to be meant; allowed: at most 1,000"),
        ({"jitter": 0.1, "seed": -3}, "perturb.seed = -3: is no seed; allowed: a whole number from 0"),
        ({"seed": 3}, "perturb.seed = 3: has no effect without jitter"),
    ],
)
def test_what_is_wrong_is_said(perturb, words):
    with pytest.raises(ScenarioError) as error:
        run(**perturb)
    assert words in str(error.value)


def test_messages_name_the_line(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "model: gpt2\ncluster: {topology: dgx-a100}\n"
        "training: {sequence_length: 512, micro_batch_size: 2, gradient_accumulation: 1}\n"
        "perturb:\n  slow_ranks:\n    3: 1.2\n    0:9: 1.5\n",
        encoding="utf-8",
    )
    with pytest.raises(ScenarioError) as error:
        simgpu.run(path)
    assert "s.yaml:7: perturb.slow_ranks.0:9 = 1.5: is no rank of this run" in str(error.value)
