"""Predictions, errors and what survives a killed validation."""

from __future__ import annotations

from pathlib import Path

import pytest

import simgpu
from simgpu.config.measured_file import PUBLISHED, expand_sources, read_measured_file
from simgpu.costs.slowest_gpu import slowness
from simgpu.errors import ScenarioError
from simgpu.metrics.validation import UnpredictedRun, ValidatedRun, sum_up, validation_to_json
from simgpu.validation import read_runs, validate
from tests.validate.tables import write_table

SCENARIO = """\
model: gpt2
cluster: {topology: dgx-a100, gpus: 8}
training: {sequence_length: 1024, micro_batch_size: 1}
variants:
  - {name: a, set: {cluster.gpus: 4}, measured: {step_time_s: 0.05, peak_memory_gib: 5, source: a paper}}
  - {name: b}
"""


def _run(name: str, measured: float, predicted: float, family: str = "f") -> ValidatedRun:
    return ValidatedRun(id=name, family=family, measured_step_s=measured, predicted_step_s=predicted)


def test_errors_by_hand() -> None:
    found = sum_up(
        [_run("a", 2, 1.8), _run("b", 1, 1.3), _run("c", 4, 4, "g")], [UnpredictedRun(id="d", family="h", reason="r")]
    )
    assert (found.mape, found.bias) == (pytest.approx(0.4 / 3), pytest.approx(0.2 / 3))
    assert [(one.family, one.n, one.skipped) for one in found.families] == [("f", 2, 0), ("g", 1, 0), ("h", 0, 1)]
    assert found.families[0].mape == pytest.approx(0.2)
    assert found.families[2].mape is None
    assert [run.id for run in found.worst(1)] == ["b"]


def test_the_json_has_the_keys_that_are_promised() -> None:
    found = validation_to_json(sum_up([_run("a", 1, 2)], [UnpredictedRun(id="b", family="f", reason="r")]))
    assert found == {
        "rows": [
            {
                "id": "a", "family": "f", "measured_step_s": 1, "predicted_step_s": 2, "error": 1.0,
                "measured_memory_gib": None, "predicted_memory_gib": None,
            }
        ],
        "skipped": [{"id": "b", "reason": "r"}],
        "families": [{"id": "f", "n": 1, "mape": 1.0, "bias": 1.0, "memory_mape": None}],
        "mape": 1.0,
        "bias": 1.0,
    }  # fmt: skip


def test_a_row_is_predicted_as_the_scenario_that_it_stands_for(tmp_path: Path) -> None:
    alone = {"gpus": "1", "tp": "1"}  # one GPU, whose rate is the middle of its kind
    path = write_table(tmp_path / "t.csv", [{"id": "a"} | alone, {"id": "b", "tp": "7"}, {"id": "c", "heads": "23"}])
    found = validate([path], jobs=1)
    runs, _ = read_runs([path])
    (report,) = simgpu.run(runs[0].data)
    assert found.runs[0].predicted_step_s == report.step_time_s
    assert sum(found.runs[0].breakdown.values()) == pytest.approx(1)
    assert {one.id for one in found.skipped} == {"b", "c"}
    assert any("heads" in one.reason for one in found.skipped)  # the simulator's own words


def test_many_gpus_run_at_the_rate_of_the_slowest(tmp_path: Path) -> None:
    large = {"id": "a", "hidden": "8192", "heads": "64", "kv_heads": "64", "ffn": "32768", "layers": "8"}
    path = write_table(tmp_path / "t.csv", [large])  # products that run into the power limit
    runs, _ = read_runs([path])
    (report,) = simgpu.run(runs[0].data)
    share = validate([path], jobs=1).runs[0].predicted_step_s / report.step_time_s - 1
    assert 0 < share < slowness(8)  # of the matrix products only


def test_layouts_of_one_setting_are_compared(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "step_s": "0.4"},
        {"id": "b", "step_s": "0.5", "micro_batch": "2"},
        {"id": "c", "hidden": "4608", "ffn": "18432"},
    ]
    found = validate([write_table(tmp_path / "t.csv", rows)], jobs=1).families[0].layouts
    assert found is not None
    assert (found.settings, found.pairs) == (1, 1)


def test_variants_with_a_measured_step(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (run,) = read_measured_file(tmp_path / "s.yaml")
    assert (run.id, run.family, run.step_s, run.memory_gib) == ("a", "s", 0.05, 5)
    assert run.data["cluster"]["gpus"] == 4
    found = validate([tmp_path / "s.yaml"], jobs=1)
    assert found.runs[0].memory_error is not None
    assert len(simgpu.run(tmp_path / "s.yaml")) == 2  # the same file plays as before


def test_a_scenario_without_a_measured_step(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="has no measured step"):
        validate(["four_vs_eight"])
    with pytest.raises(ScenarioError, match="neither scenarios nor tables"):
        validate([tmp_path])


def test_what_is_finished_is_not_predicted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, journal = write_table(tmp_path / "t.csv", [{"id": "a"}]), tmp_path / "j.jsonl"
    first = validate([path], jobs=1, journal=journal)

    def fail(_: object) -> None:
        raise AssertionError("predicted again")

    monkeypatch.setattr("simgpu.validation.run.play_run", fail)
    assert validate([path], jobs=1, journal=journal) == first


def test_a_machine_of_its_own_rate() -> None:
    from simgpu.config.run_costs import RunCosts
    from simgpu.hardware.gpu import gpu

    b200 = gpu("B200-SXM-180GB")
    assert RunCosts(source="elsewhere").device(b200) == b200
    assert RunCosts(source="MooreThreads/SimuMax").device(b200).gemm_tflops < b200.gemm_tflops


def test_the_published_runs_can_be_read() -> None:
    files = expand_sources([PUBLISHED])
    runs = [run for path in files for run in read_measured_file(path)]
    assert len(runs) >= 120
    assert len({run.id for run in runs}) == len(runs)
    assert len({run.family for run in runs}) >= 8
    assert all(run.source for run in runs)
