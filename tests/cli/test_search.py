"""``simgpu search`` from the outside."""

import json

import pytest

from simgpu.cli.main import main

SPACE = """\
name: A small space
model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 8192}
cluster: {topology: dgx-a100, gpus: 4}
training: {sequence_length: 512, global_batch_size: 16}
search:
  tp: [1, 2]
  pp: [1, 2]
  virtual_stages: [1]
  data_parallel: [zero1, fsdp]
  micro_batch_size: [1, 2]
  recompute: [none]
  schedule: [1f1b]
  order: [[pp, dp, tp]]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.yaml").write_text(SPACE, encoding="utf-8")
    return tmp_path


def simgpu(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["simgpu", *arguments])
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0


def test_it_ranks_and_writes_the_winner(folder, monkeypatch, capsys):
    options = ("--out", "best.yaml", "--json", "found.json", "--journal", "kept.jsonl", "--jobs", "1")
    assert simgpu(monkeypatch, "search", "space.yaml", *options) == 0
    shown = capsys.readouterr()
    assert "Fastest that fits:" in shown.out
    assert "16 strategies" in shown.err
    found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    assert (found["schema"], len(found["candidates"]), found["candidates"][0]["status"]) == (1, 16, "winner")
    assert found["candidates"][0]["index"] == found["winner"]
    assert 0 < found["simulated"] < 16
    assert simgpu(monkeypatch, "run", "best.yaml", "--no-html", "--no-what-if", "--json", "best.json") == 0
    (run,) = json.loads((folder / "best.json").read_text(encoding="utf-8"))["runs"]
    assert run["step_time_ns"] == found["candidates"][0]["step_time_ns"]


def test_the_winner_on_standard_output(folder, monkeypatch, capsys):
    assert simgpu(monkeypatch, "search", "space.yaml", "--out", "-", "--jobs", "1") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("# Fastest that fits")
    assert "model: {" in shown.out or "\nmodel:\n" in shown.out
    assert "First 15 of 16" in shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("space.yaml", "--jobs", "0"), "--jobs 0"),
        (("space.yaml", "--out", "-", "--json", "-"), "both are standard output"),
        (("space.yaml", "--out", "space.yaml"), "read for this search"),
        (("space.yaml", "--set", "search.tp=[3]"), "has no strategy"),
        (("space.yaml", "--set", "training.global_batch_size=null"), "training.global_batch_size: is missing"),
        (("space.yaml", "--set", "model=llama-2-70b"), "no strategy fits"),
        (("four_vs_eight",), "variants"),
    ],
)
def test_what_goes_wrong_is_one_message(folder, monkeypatch, capsys, arguments, words):
    assert simgpu(monkeypatch, "search", *arguments) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert "Traceback" not in shown.err


def test_a_scenario_with_a_search_block_runs_as_it_is(folder, monkeypatch):
    assert simgpu(monkeypatch, "run", "space.yaml", "--no-html", "--set", "training.micro_batch_size=1") == 0
