"""Search against exhaustive simulation, and what it says about those that lose."""

import copy

import pytest

import simgpu
from simgpu.config.search_space import AXES, load_search
from simgpu.errors import ScenarioError
from simgpu.executor import Journal
from simgpu.searches import run as search_run
from simgpu.searches.candidates import list_candidates
from simgpu.searches.result import BOUND, MEMORY_BOUND, SLOWER, WINNER
from simgpu.searches.run import run_search
from tests.searches.spaces import SMALL, exhaustive, simulated


@pytest.fixture(scope="module")
def space():
    return load_search(SMALL)


@pytest.fixture(scope="module")
def found(space):
    return run_search(space, jobs=1)


def test_the_winner_is_that_of_all_simulated(space, found):
    candidates = list_candidates(space)
    assert len(candidates) > 100
    assert (found.winner.step_time_ns, found.winner.index) == exhaustive(space, candidates)
    assert found.simulated <= len(candidates) // 10


def test_every_candidate_has_its_fate(found):
    winner = found.winner
    assert [one.index for one in found.candidates] == list(range(len(found.candidates)))
    for one in found.candidates:
        if one.status == SLOWER:
            assert (one.step_time_ns, one.index) > (winner.step_time_ns, winner.index)
            assert one.bound_ns <= one.step_time_ns
            assert "slower" in one.reason or one.step_time_ns == winner.step_time_ns
        elif one.status == BOUND:
            assert (one.bound_ns, one.index) >= (winner.step_time_ns, winner.index)
            assert one.reason.startswith("takes at least")
        else:
            assert one.status == WINNER
    ranked = found.ranked()
    assert ranked[0] is winner
    simulated = [one.step_time_ns for one in ranked if one.status == SLOWER]
    assert simulated == sorted(simulated)


def test_two_processes_find_the_same(space, found):
    other = run_search(space, jobs=2)
    assert (other.winner.index, other.winner.step_time_ns) == (found.winner.index, found.winner.step_time_ns)
    assert other.scenario == found.scenario


def test_of_equally_fast_ones_the_first_wins():
    """Without a network, mesh orders are all the same."""
    orders = [["pp", "dp", "tp"], ["dp", "pp", "tp"], ["tp", "pp", "dp"]]
    left = copy.deepcopy(SMALL) | {"network": "free"}
    left["search"] |= {"order": orders, "tp": [2], "pp": [2], "micro_batch_size": [1], "data_parallel": ["zero1"]}
    space = load_search(left)
    found = run_search(space, jobs=1)
    times = {one.index: simulated(space, one)["numbers"]["step_time_ns"] for one in list_candidates(space)}
    assert sum(time == found.winner.step_time_ns for time in times.values()) > 1
    assert found.winner.index == min(times, key=lambda index: (times[index], index))


def test_what_cannot_fit_is_not_simulated(monkeypatch):
    left = copy.deepcopy(SMALL)
    left["model"] = "llama-2-7b"
    left["search"] |= {"tp": [1, 2, 4], "pp": [1], "recompute": ["full"], "data_parallel": ["ddp", "zero3"]}
    space = load_search(left)
    played = []
    real = search_run.play_point
    monkeypatch.setattr(search_run, "play_point", lambda task: played.append(task.data) or real(task))
    found = run_search(space, jobs=1)
    out = [one for one in found.candidates if one.status == MEMORY_BOUND]
    assert {(one.set["tp"], one.set["data_parallel"]) for one in out} >= {(1, "ddp")}
    assert all(one.reason.startswith("needs at least") for one in out)
    assert not any(data["parallel"]["data_parallel"] == "ddp" and data["parallel"]["tp"] == 1 for data in played)
    assert found.winner is not None


def test_nothing_fits():
    left = copy.deepcopy(SMALL) | {"model": "llama-2-70b"}
    left["search"] |= {"pp": [1], "tp": [2]}
    found = simgpu.search(left, jobs=1)
    assert (found.winner, found.scenario, found.simulated) == (None, None, 0)
    assert str(found).startswith("No strategy fits")


def test_the_journal_spares_what_is_known(space, found, tmp_path, monkeypatch):
    path = tmp_path / "search.jsonl"
    first = run_search(space, jobs=1, journal=path)
    with Journal(path) as journal:
        assert len(journal.found) == first.simulated
    monkeypatch.setattr(search_run, "play_point", None)  # nothing is left to play
    again = run_search(space, jobs=1, journal=path)
    assert again == first == found


def test_a_killed_search_goes_on(tmp_path, monkeypatch):
    space = load_search(copy.deepcopy(SMALL) | {"cluster": {"topology": "8x-a100-single-nic", "nodes": 2}})
    found = run_search(space, jobs=1)
    assert found.simulated > 1
    path = tmp_path / "search.jsonl"
    real, left = search_run.play_point, [1]

    def dies(task):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return real(task)

    monkeypatch.setattr(search_run, "play_point", dies)
    with pytest.raises(KeyboardInterrupt):
        run_search(space, jobs=1, journal=path)
    played = []
    monkeypatch.setattr(search_run, "play_point", lambda task: played.append(task) or real(task))
    assert run_search(space, jobs=1, journal=path) == found
    assert len(played) == found.simulated - 1


def test_the_scenario_of_the_winner_plays_as_fast(found):
    (report,) = simgpu.run(found.scenario)
    assert report.step_time_ns == found.winner.step_time_ns
    assert report.fits


def test_axes_default_to_the_scenario_and_then_to_what_fits():
    base = {
        "model": "gpt2",
        "cluster": {"topology": "dgx-a100"},
        "parallel": {"pp": 2, "data_parallel": "zero1"},
        "training": {"sequence_length": 1024, "global_batch_size": 64},
    }
    axes = load_search({**base, "search": {"micro_batch_size": [4]}}).axes
    assert (axes["pp"], axes["data_parallel"], axes["micro_batch_size"]) == ((2,), ("zero1",), (4,))
    assert axes["tp"] == (1, 2, 4)
    assert tuple(axes) == tuple(AXES)
    free = load_search(base).axes  # without a block everything is searched
    assert free["pp"] == (1, 2, 4)
    assert len(free["data_parallel"]) > 1


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"search": {"tp": [1, 1]}}, "search.tp", "has 1 twice"),
        ({"search": {"tp": []}}, "search.tp", ""),
        ({"search": {"schedule": ["2f2b"]}}, "search.schedule[0]", "is no pipeline schedule"),
        ({"search": {"tq": [1]}}, "search.tq", "is not a field"),
        ({"variants": [{"name": "a"}]}, "variants", "is not what a search is about"),
        ({"sweep": {"parallel.tp": [1]}}, "sweep", "is not what a search is about"),
        ({"training": {"sequence_length": 512}}, "training.global_batch_size", "is missing"),
        ({"training": SMALL["training"] | {"gradient_accumulation": 2}}, "training.gradient_accumulation", "finds"),
        ({"parallel": {"dp": 2}}, "parallel.dp", "follows"),
        ({"model": {"stages": 4, "forward_ns": 1, "backward_ns": 2}}, "model", "is synthetic"),
        ({"search": {"tp": [3]}}, "search", "has no strategy"),
    ],
)
def test_what_cannot_be_searched_is_said(change, field, words):
    with pytest.raises(ScenarioError) as raised:
        list_candidates(load_search({**SMALL, **change}))
    assert field in [issue.field for issue in raised.value.issues]
    assert any(words in issue.problem for issue in raised.value.issues)


def test_candidates_are_legal_and_distinct(space):
    candidates = list_candidates(space)
    seen = set()
    for one in candidates:
        values = one.values
        degrees = values["tp"] * values["pp"] * values["cp"]
        assert degrees * one.dp == 4
        assert values["micro_batch_size"] * one.dp * one.microbatches == 16
        seen.add(tuple(values.items()))
    assert len(seen) == len(candidates)


def test_what_deepspeed_refuses_is_no_candidate(space):
    zero3 = [one for one in list_candidates(space) if one.values["data_parallel"] == "zero3"]
    assert zero3
    assert not [one for one in zero3 if one.values["pp"] > 1 and one.dp > 1]
