import json

import pytest


def test_the_largest_gains_are_shown_everywhere(simgpu, tmp_path):
    done = simgpu("run", "pipeline_ideal", "--json", "x.json")
    assert done.code == 0, done.err
    assert done.out.count("what if: no bubble: −15.8 % (48 ms)") == 2
    first = json.loads((tmp_path / "x.json").read_text())["runs"][0]["what_ifs"]
    assert first == [{"change": "bubble=none", "step_time_ns": 48_000_000, "share": pytest.approx(3 / 19)}]
    page = (tmp_path / "pipeline_ideal.html").read_text(encoding="utf-8")
    assert "What if</h2>" in page
    assert "no bubble" in page


def test_none_when_not_wanted(simgpu):
    done = simgpu("run", "pipeline_ideal", "--no-html", "--no-what-if", "--json", "-")
    assert all(run["what_ifs"] == [] for run in json.loads(done.out)["runs"])
    assert "what if" not in done.err


def test_asked_for_and_not_wanted(simgpu):
    done = simgpu("run", "pipeline_ideal", "--what-if", "bubble=none", "--no-what-if")
    assert (done.code, done.err) == (2, "error: --what-if: excludes --no-what-if; fix: give one of them\n")


def test_asked_for(simgpu):
    done = simgpu("run", "pipeline_bubble", "--no-html", "--what-if", "bubble=none,nvlink=2x", "--json", "-")
    runs = json.loads(done.out)["runs"]
    assert [one["change"] for one in runs[0]["what_ifs"]] == ["bubble=none", "nvlink=2x", "bubble=none,nvlink=2x"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ("bubble=free", "error: --what-if: bubble = free: is no such change; allowed: none\n"),
        ("tp=free", "error: --what-if: tp=free: nothing is sent: parallel.tp is 1; fix: leave it out\n"),
        ("a=1x,b=2x", "error: 2 problems\n"),
    ],
)
def test_bad_changes_are_one_message_before_anything_is_simulated(simgpu, tmp_path, changes, words):
    done = simgpu("run", "pipeline_bubble", "--what-if", changes)
    assert done.code == 2
    assert done.err.startswith(words)
    assert not list(tmp_path.iterdir())
