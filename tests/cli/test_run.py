import json

import pytest

from simgpu.cli.progress import watched


def test_a_run_prints_the_verdict_first_and_writes_the_report(simgpu, tmp_path):
    outcome = simgpu("run", "pipeline_ideal")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    title, verdict, *_ = outcome.out.splitlines()
    assert title == "Ideal pipeline, 1F1B and GPipe"
    assert "bubble" in verdict
    assert "57 ms" in outcome.out  # (16 + 3) x (1 + 2) ms
    assert "105 ms" in outcome.out  # (32 + 3) x (1 + 2) ms
    assert outcome.out.endswith("Report: pipeline_ideal.html\n")
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline_ideal.html"]
    assert "<html" in (tmp_path / "pipeline_ideal.html").read_text(encoding="utf-8").lower()


def test_json_on_standard_output_is_alone_there(simgpu, tmp_path):
    outcome = simgpu("run", "pipeline_ideal", "--no-html", "--json", "-")
    assert outcome.code == 0, outcome.err
    runs = json.loads(outcome.out)["runs"]
    assert [run["name"] for run in runs] == ["1F1B, M = 16", "1F1B, M = 32", "GPipe, M = 16", "GPipe, M = 32"]
    assert [run["step_time_ns"] for run in runs] == [57_000_000, 105_000_000] * 2
    assert "Ideal pipeline" in outcome.err
    assert not list(tmp_path.iterdir())


def test_json_in_a_file_is_the_same_and_reruns_are_identical(simgpu, tmp_path):
    simgpu("run", "pipeline_ideal", "--no-html", "--json", "a.json")
    on_stdout = simgpu("run", "pipeline_ideal", "--no-html", "--json", "-").out
    assert (tmp_path / "a.json").read_text() == on_stdout


def test_overrides_and_paths(simgpu, tmp_path):
    outcome = simgpu(
        "run", "pipeline_ideal", "--set", "model.backward_ns=3 ms", "--html", "r.html", "--json", tmp_path / "r.json"
    )
    assert outcome.code == 0, outcome.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "r.json"]
    assert json.loads((tmp_path / "r.json").read_text())["runs"][0]["step_time_ns"] == 19 * 4_000_000


def test_a_rank_of_ones_own(simgpu):
    outcome = simgpu("run", "pipeline_ideal", "--no-html", "--rank", "3")
    assert "Where rank 3's step goes" in outcome.out
    assert "rank 3 of pipeline stage 3" in outcome.out


def test_no_fold_reaches_the_simulation(simgpu, monkeypatch):
    from simgpu import api

    simulate, folds = api.simulate, []
    monkeypatch.setattr(api, "simulate", lambda case, *, fold: folds.append(fold) or simulate(case, fold=fold))
    simgpu("run", "pipeline_ideal", "--no-html", "--no-fold")
    simgpu("run", "pipeline_ideal", "--no-html")
    assert folds == [False] * 4 + [True] * 4


def test_folding_changes_nothing(simgpu):
    folded, unfolded = (
        json.loads(simgpu("run", "pipeline_ideal", "--no-html", "--json", "-", *extra).out)["runs"]
        for extra in ([], ["--no-fold"])
    )
    assert [run["step_time_ns"] for run in folded] == [run["step_time_ns"] for run in unfolded]


def test_compare_lays_files_side_by_side_and_tells_equal_names_apart(simgpu, tmp_path):
    for name, backward in (("one", "2 ms"), ("two", "3 ms")):
        (tmp_path / f"{name}.yaml").write_text(
            f"name: same\nmodel: {{stages: 2, forward_ns: 1 ms, backward_ns: {backward}}}\n"
            "cluster: {topology: dgx-a100, gpus: 2}\n"
            "training: {micro_batch_size: 1, gradient_accumulation: 4}\nnetwork: free\n"
        )
    outcome = simgpu("compare", "one.yaml", "two.yaml", "one.yaml", "--json", "-")
    assert outcome.code == 0, outcome.err
    runs = json.loads(outcome.out)["runs"]
    assert [(run["name"], run["step_time_ns"]) for run in runs] == [
        ("one: same", 15_000_000), ("two: same", 20_000_000), ("one: same (2)", 15_000_000)
    ]  # fmt: skip
    assert (tmp_path / "compare.html").is_file()


def test_names_with_markup_are_printed_as_they_are(simgpu, tmp_path):
    (tmp_path / "m.yaml").write_text(
        'name: "[bold]x[/] [red"\nmodel: {stages: 2, forward_ns: 1, backward_ns: 1}\n'
        "cluster: {topology: dgx-a100, gpus: 2}\ntraining: {micro_batch_size: 1}\nnetwork: free\n"
    )
    outcome = simgpu("run", "m.yaml", "--no-html")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("[bold]x[/] [red\n")


@pytest.mark.parametrize("patience_s", [0.0, 60.0])
def test_the_progress_bar_shows_only_when_patience_is_over(patience_s, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes standard error for a terminal
    monkeypatch.setattr("simgpu.cli.progress.PATIENCE_S", patience_s)
    with watched(2) as watch:
        watch.begin("first")
        if patience_s == 0.0:
            watch.wait_shown(10.0)
        watch.begin("second")
        assert watch.shown == (patience_s == 0.0)
    captured = capsys.readouterr()
    assert captured.out == ""


def test_no_progress_goes_into_a_file(monkeypatch, capsys):
    monkeypatch.setattr("simgpu.cli.progress.PATIENCE_S", 0.0)
    with watched(1) as watch:
        watch.begin("long")
        watch.wait_shown(10.0)
        assert not watch.shown
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("cases", [1, 2])
def test_the_progress_bar_of_one_long_run_moves_and_counts_from_its_beginning(cases, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("simgpu.cli.progress.PATIENCE_S", 0.05)
    with watched(cases) as watch:
        watch.begin("long")
        watch.wait_shown(10.0)
        (task,) = watch._bar[0].tasks
        assert (task.total is None) == (cases == 1)  # a bar without a total moves
        assert task.elapsed >= 0.05
