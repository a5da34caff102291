import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simgpu
from simgpu.config.load import load_scenario
from simgpu.metrics.gain import Gain, gains_text
from simgpu.what_ifs import applicable_changes, largest_gains, parse_changes
from simgpu.what_ifs import gains as module
from tests.strategies import case_of, scenarios


def synthetic(*, forward, backward, microbatches, schedule="1f1b", network="free"):
    stages = len(forward)
    scenario = {
        "model": {"stages": stages, "forward_ns": forward, "backward_ns": backward},
        "cluster": {"topology": "dgx-a100", "gpus": stages},
        "training": {"micro_batch_size": 1, "gradient_accumulation": microbatches},
        "parallel": {"pp": stages, "schedule": schedule},
    }
    (case,) = load_scenario({**scenario, **({"network": network} if network else {})}).cases
    return case


def gain(case, change):
    (found,) = simgpu.what_if(case, change)
    return found


@given(
    times=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=2, max_size=4),
    microbatches=st.integers(1, 8),
    schedule=st.sampled_from(["1f1b", "gpipe"]),
)
@settings(max_examples=30)
def test_without_bubble_the_step_is_the_busiest_stages_work(times, microbatches, schedule):
    forward, backward = ([1000 * part for part in column] for column in zip(*times, strict=True))
    case = synthetic(forward=forward, backward=backward, microbatches=microbatches, schedule=schedule)
    busiest_ns = max(f + b for f, b in zip(forward, backward, strict=True)) * microbatches
    found = gain(case, "bubble=none")
    assert found.step_time_ns == busiest_ns
    assert found.share >= 0


def test_the_busiest_stage_counts_wherever_it_is():
    for place in range(3):
        forward = [1000 * (7 if stage == place else 1) for stage in range(3)]
        case = synthetic(forward=forward, backward=[1000] * 3, microbatches=4)
        assert gain(case, "bubble=none").step_time_ns == 4 * 8000


def test_equal_stages_lose_the_bubble_of_the_textbook():
    found = gain(synthetic(forward=[1000] * 4, backward=[2000] * 4, microbatches=16), "bubble=none")
    assert found.share == pytest.approx(3 / 19)


def test_the_bubble_and_what_the_cpu_issues():
    """Messages vanish at their place, so that the CPU issues as many things as before."""
    case = load_scenario("pipeline_bubble", overrides=["software=eager"]).cases[0]
    assert 0 < gain(case, "bubble=none").share < 1


@pytest.mark.parametrize("changes", ["network=free", "dp=free"])
def test_what_is_free_is_no_longer_exposed(changes):
    scenario = load_scenario("zero_stages", overrides=["training.global_batch_size=32"])
    for case in scenario.cases:
        report = simgpu.simulate(case)
        found = gain(case, changes)
        assert found.step_time_ns < report.step_time_ns
        # More than what was exposed, where kernels were slowed by communication beside them; a little less, where the
        # wait for a transfer hid that for the CPU.
        assert found.share > 0.9 * report.breakdown_ns["exposed.dp"] / report.step_time_ns


def test_network_free_is_the_scenarios_own():
    free = simgpu.run("zero_stages", overrides=["network=free"])
    for case, report in zip(load_scenario("zero_stages").cases, free, strict=True):
        assert gain(case, "network=free").step_time_ns == report.step_time_ns


def test_a_link_twice_as_fast_halves_what_is_exposed_of_a_lone_transfer():
    case = load_scenario("tp_across_nodes").cases[0]
    once, twice, often = (gain(case, f"nvlink={factor}x").share for factor in (1, 2, 1000))
    assert once == 0
    assert 0 < twice < often < gain(case, "tp=free").share


def test_arithmetic_and_memory():
    (case, *_) = load_scenario("zero_stages").cases
    report = simgpu.simulate(case)
    kinds = report.breakdown_ns
    busy = (kinds["compute.gemm"] + kinds["compute.attention"]) / report.step_time_ns
    assert 0.5 * busy * 0.5 < gain(case, "compute=2x").share < busy
    assert 0 < gain(case, "hbm=2x").share < 0.5
    assert gain(case, "compute=1x").share == gain(case, "hbm=1x").share == 0
    assert gain(case, "compute=0.5x").share < 0


def test_without_host_costs_nothing_waits_for_the_cpu():
    (case, *_) = load_scenario(
        "zero_stages", overrides=["model=gpt2", "training.sequence_length=128", "software.host_issue_ns=20000"]
    ).cases
    report = simgpu.simulate(case)
    lost = report.breakdown_ns["host"] / report.step_time_ns
    assert lost > 0
    assert gain(case, "host=none").share > 0.9 * lost  # some of what waited for the CPU then waits for transfers


def test_several_are_played_alone_and_together():
    case = load_scenario("pipeline_bubble").cases[0]
    bubble, memory, both = simgpu.what_if(case, "bubble=none,hbm=2x")
    assert both.change == "bubble=none,hbm=2x"
    assert both.words == "no bubble and device memory 2× as fast"
    assert both.share > max(bubble.share, memory.share)


@settings(max_examples=6)
@given(scenario=scenarios())
def test_folded_or_not_the_gains_are_the_same(scenario):
    case = case_of(scenario)
    changes = parse_changes("nvlink=2x,dp=free,tp=free,bubble=none,host=none")
    changes = tuple(change for change in changes if not module._problem(case, change))
    folded = simgpu.what_if(case, changes)
    assert folded == simgpu.what_if(case, changes, fold=False)
    for one in folded:
        assert one.step_time_ns >= 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'': is no change; allowed: nvlink, pcie, network, compute, hbm, tp, cp, ep, pp, dp, bubble, host"),
        ("nvlnk=2x", "nvlnk: is no change; allowed: nvlink, pcie, network"),
        ("nvlnk=2x", "fix: did you mean nvlink?"),
        ("nvlink", "nvlink = '': is no such change; allowed: a factor from 0.01x to 1000x, such as 2x"),
        ("nvlink=2", "nvlink = 2: is no such change"),
        ("nvlink=0x", "nvlink = 0x: is no such change"),
        ("nvlink=free", "nvlink = free: is no such change"),
        ("network=fast", "allowed: a factor from 0.01x to 1000x, such as 2x, or free"),
        ("bubble=free", "bubble = free: is no such change; allowed: none"),
        ("tp=2x", "tp = 2x: is no such change; allowed: free"),
        ("hbm=2x,hbm=3x", "hbm = 3x: is given twice"),
    ],
)
def test_bad_changes(text, words):
    with pytest.raises(simgpu.ScenarioError) as caught:
        parse_changes(text)
    assert f"--what-if: {words}" in str(caught.value) or words in str(caught.value)


def test_spaces_and_capitals_are_forgiven():
    assert [str(one) for one in parse_changes(" NVLink = 2.50X , bubble=None")] == ["nvlink=2.5x", "bubble=none"]


def test_a_change_that_means_nothing_is_refused_unless_another_case_has_it():
    cases = load_scenario("tp_across_nodes").cases
    with pytest.raises(simgpu.ScenarioError, match="bubble=none: there is no pipeline"):
        simgpu.what_if(cases[0], "bubble=none")
    with pytest.raises(simgpu.ScenarioError, match="has no network links"):
        simgpu.what_if(cases[0], "network=2x")
    network = parse_changes("network=2x")
    assert applicable_changes(cases[:2], network) == ((), network)
    case = synthetic(forward=[1000] * 2, backward=[1000] * 2, microbatches=2)
    with pytest.raises(simgpu.ScenarioError, match="the model is synthetic"):
        simgpu.what_if(case, "compute=2x")


def test_the_largest_come_first_and_replays_are_bounded(monkeypatch):
    case = load_scenario("pipeline_bubble").cases[0]
    report = simgpu.simulate(case)
    played = []
    real = module._step_ns

    def step_ns(case, changes, *, fold):
        played.append(changes)
        return real(case, changes, fold=fold)

    monkeypatch.setattr(module, "_step_ns", step_ns)
    found = largest_gains(case, report)
    assert found[0].change == "bubble=none"
    assert [one.share for one in found] == sorted((one.share for one in found), reverse=True)
    assert 1 <= len(found) <= 3
    assert len(played) <= module.MOST_REPLAYS
    monkeypatch.setattr(module, "MOST_SPANS", len(report.timeline.spans))
    played.clear()
    assert largest_gains(case, report) == found[:1]
    assert len(played) == 1
    monkeypatch.setattr(module, "MOST_SPANS", len(report.timeline.spans) - 1)
    assert largest_gains(case, report) == ()


def test_words():
    gains = [Gain(change="x", words=name, step_time_ns=10**9, share=share)
             for name, share in (("a", 0.0312), ("b", -0.2), ("c", 0.0004), ("d", -0.0004))]  # fmt: skip
    assert gains_text(gains) == "a: −3.1 % (1 s); b: +20.0 % (1 s); c: ±0.0 % (1 s); d: ±0.0 % (1 s)"
