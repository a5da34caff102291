"""Several runs of a pipeline in one step: times, memory, gradients, and what a scenario may ask for."""

from collections import Counter

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.config.search_space import load_search
from simgpu.errors import ScenarioError
from simgpu.parallel.schedules import PIPELINE_SCHEDULES
from simgpu.program import Alloc, Collective, Free
from tests.lower.tiny import roles, tiny
from tests.test_bubbles import bubble, ideal

RUNS = {"pp": 2, "training": {"gradient_accumulation": 6}}


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("p", "m", "k"), [(4, 4, 4), (3, 5, 2), (2, 1, 3)])
def test_k_runs_of_m_take_k_times_m_plus_p_minus_1(name, p, m, k):
    report = simulate(ideal(p, k * m, name, "1 ms", "2 ms", pipeline_microbatches=m, saved=1 << 20))
    assert report.step_time_ns == k * (m + p - 1) * 3_000_000
    assert float(bubble(report)) == pytest.approx(report.ideal_bubble_fraction) == pytest.approx((p - 1) / (m + p - 1))
    live = max(rank.memory_at_peak_bytes["activations"] for rank in report.ranks)
    assert live == (m if name == "gpipe" else min(m, p)) << 20


@pytest.mark.parametrize("name", PIPELINE_SCHEDULES)
def test_every_schedule_is_played_in_runs(name):
    once = simulate(ideal(4, 8, name, weight="1 ms")).step_time_ns
    many = simulate(ideal(4, 24, name, weight="1 ms")).step_time_ns
    runs = simulate(ideal(4, 24, name, weight="1 ms", pipeline_microbatches=8)).step_time_ns
    assert many <= runs <= 3 * once


def test_all_micro_batches_in_one_run_is_what_a_scenario_has_anyway():
    assert simulate(ideal(4, 8, "1f1b", pipeline_microbatches=8)) == simulate(ideal(4, 8, "1f1b"))


def reductions(role):
    found = (item for stream in role.streams.values() for item in stream)
    return Counter(item.kind for item in found if isinstance(item, Collective) and item.communicator == "dp")


def test_fsdp_reduces_and_gathers_in_every_run():
    """Three runs of two: PyTorch's stages reduce in the last backward of each, and reshard; Megatron does once."""
    fsdp = {"gpus": 4, "data_parallel": "fsdp", **RUNS}
    one, three = (roles(**fsdp, **more)[0] for more in ({}, {"pipeline_microbatches": 2}))
    assert reductions(three) == Counter({kind: 3 * count for kind, count in reductions(one).items()})
    assert set(reductions(three)) == {"all_gather", "reduce_scatter"}
    ddp = {"gpus": 4, "data_parallel": "ddp", **RUNS}
    one, three = (roles(**ddp, **more)[0] for more in ({}, {"pipeline_microbatches": 2}))
    assert reductions(three) == reductions(one) != Counter()


@pytest.mark.parametrize("kind", ["fsdp", "ddp", "zero1", "distributed_optimizer"])
def test_what_is_taken_is_given_back(kind):
    for role in roles(gpus=4, data_parallel=kind, pipeline_microbatches=2, **RUNS):
        held = Counter()
        for stream in role.streams.values():
            for item in stream:
                if isinstance(item, Alloc | Free):
                    held[item.category] += item.bytes if isinstance(item, Alloc) else -item.bytes
        assert not any(held.values()), held


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            {"pipeline_microbatches": 4},
            r"parallel.pipeline_microbatches = 4: does not divide the 6 micro-batches of a step",
        ),
        ({"pipeline_microbatches": 0}, r"parallel.pipeline_microbatches = 0"),
        (
            {"pipeline_microbatches": 3, "schedule": "dualpipev"},
            r"parallel.pipeline_microbatches = 3: makes runs that dualpipev cannot have",
        ),
    ],
)
def test_what_no_run_can_have_is_named(wanted, message):
    with pytest.raises(ScenarioError, match=message):
        tiny(model={"layers": 4}, **RUNS, **wanted)


def test_without_a_pipeline_it_has_no_effect():
    case = tiny(gpus=2, training={"gradient_accumulation": 6}, pipeline_microbatches=2)
    assert "parallel.pipeline_microbatches has no effect: parallel.pp is 1" in case.warnings


def test_a_schedule_file_is_of_one_run(tmp_path):
    (tmp_path / "one.csv").write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", encoding="utf-8")
    (tmp_path / "s.yaml").write_text(
        "model: {stages: 2, forward_ns: 1000, backward_ns: 2000}\ncluster: {topology: dgx-a100, gpus: 2}\n"
        "training: {micro_batch_size: 1, gradient_accumulation: 6, optimizer: none}\nnetwork: free\n"
        "parallel: {schedule: one.csv, pipeline_microbatches: 2}\n",
        encoding="utf-8",
    )
    (case,) = load_cases(str(tmp_path / "s.yaml"))
    assert simulate(case).step_time_ns == 3 * 3 * 3000
    with pytest.raises(ScenarioError, match=r"parallel.pipeline_microbatches = 3: makes 3 micro-batches, and the sch"):
        load_cases(str(tmp_path / "s.yaml"), overrides=["parallel.pipeline_microbatches=3"])


def test_a_search_has_no_runs():
    scenario = {
        "model": "gpt2",
        "cluster": {"topology": "dgx-a100", "gpus": 4},
        "training": {"sequence_length": 512, "global_batch_size": 64},
        "parallel": {"pipeline_microbatches": 2},
    }
    with pytest.raises(ScenarioError, match=r"parallel.pipeline_microbatches = 2: is not searched"):
        load_search(scenario)
