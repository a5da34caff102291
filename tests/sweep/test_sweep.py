import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simgpu
from simgpu.executor import code_version, point
from simgpu.metrics.sweep_table import CLASSES, NUMBERS
from tests.sweep.grids import GRID, idle_share


@pytest.fixture(scope="module")
def table():
    return simgpu.sweep(GRID, jobs=1)


def test_closed_form_at_every_point(table):
    for one in table.points:
        schedule, microbatches, stages = one.values
        if stages == 4:
            step_ns = (microbatches + 3) * 3_000_000
            assert (one.status, one.numbers["step_time_ns"]) == ("ok", step_ns), schedule
            assert one.numbers["bubble_fraction"] == pytest.approx(idle_share(4, microbatches))


def test_points_are_the_product_in_order_the_last_axis_fastest(table):
    assert [one.index for one in table.points] == list(range(24))
    assert [one.values for one in table.points[:4]] == [("1f1b", 4, 4), ("1f1b", 4, 3), ("1f1b", 8, 4), ("1f1b", 8, 3)]
    assert table.points[-1].values == ("gpipe", 24, 3)


def test_what_cannot_be_laid_out_stays_in_the_table_with_its_reason(table):
    invalid = [one for one in table.points if one.status == "invalid"]
    assert [one.values[2] for one in invalid] == [3] * 12
    assert all(re.match(r"parallel\.pp = 3: .*; fix: ", one.reason) and "\n" not in one.reason for one in invalid)
    assert all(not one.numbers for one in invalid)


def test_a_point_is_what_run_says_of_the_same_scenario(table):
    best = table.ranked()[0]
    plain = {name: value for name, value in GRID.items() if name != "sweep"}
    changes = {field.field: value for field, value in zip(table.axes, best.values, strict=True)}
    (report,) = simgpu.run(plain, overrides=[f"{name}={value}" for name, value in changes.items()])
    assert report.step_time_ns == best.numbers["step_time_ns"]
    assert report.breakdown_ns == best.numbers["breakdown_ns"]
    assert report.peak_memory_bytes == best.numbers["peak_memory_bytes"]


def test_the_same_table_whatever_the_workers(table):
    csv = table.to_csv()
    assert simgpu.sweep(GRID, jobs=2).to_csv() == csv
    with ThreadPoolExecutor(3) as threads:
        assert simgpu.sweep(GRID, executor=threads).to_csv() == csv


def test_folded_or_not(table):
    assert simgpu.sweep(GRID, jobs=1, fold=False).to_csv() == table.to_csv()


@settings(max_examples=8)
@given(
    tp=st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=2, unique=True),
    micro=st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=2, unique=True),
)
def test_random_grids_are_simulated_point_by_point(tp, micro):
    scenario = {
        "model": {"layers": 2, "hidden": 256, "heads": 8, "ffn": 512, "vocab": 1024},
        "cluster": {"topology": "dgx-a100"},
        "training": {"sequence_length": 128, "global_batch_size": 32},
    }
    grid = {"parallel.tp": tp, "training.micro_batch_size": micro}
    table = simgpu.sweep({**scenario, "sweep": grid}, jobs=1)
    assert len(table.points) == len(tp) * len(micro)
    for one in table.points:
        degree, size = one.values
        own = {**scenario, "parallel": {"tp": degree}, "training": {**scenario["training"], "micro_batch_size": size}}
        if 8 % degree or 32 % (8 // degree * size):
            assert one.status == "invalid"
            with pytest.raises(simgpu.ScenarioError) as caught:
                simgpu.run(own)
            assert str(caught.value.issues[0]).partition(": ")[2] in one.reason
        else:
            assert (one.status, one.numbers["step_time_ns"]) == ("ok", simgpu.run(own)[0].step_time_ns)


def test_variants_are_an_axis():
    variants = [{"name": "few", "set": {"training.gradient_accumulation": 4}}, {"name": "many", "set": {
        "training.gradient_accumulation": 16}}]  # fmt: skip
    grid = {**GRID, "variants": variants, "sweep": {"parallel.schedule": ["1f1b", "gpipe"]}}
    table = simgpu.sweep(grid, jobs=1)
    assert [axis.field for axis in table.axes] == ["variant", "parallel.schedule"]
    assert [one.numbers["step_time_ns"] // 3_000_000 for one in table.points] == [7, 7, 19, 19]


def test_steps_of_different_size_are_compared_per_token():
    scenario = {
        "model": {"layers": 2, "hidden": 256, "heads": 8, "ffn": 512, "vocab": 1024},
        "cluster": {"topology": "dgx-a100"},
        "training": {"sequence_length": 128, "micro_batch_size": 4},
        "price_per_gpu_hour": 3.6,
        "sweep": {"training.global_batch_size": [32, 64]},
    }
    table = simgpu.sweep(scenario, jobs=1)
    small, large = table.points
    assert not table.equal_work
    assert table.time_ns(small) == small.numbers["step_time_ns"] * 1e6 / (32 * 128)
    assert table.ranked() == [large, small]  # twice the tokens share one optimizer step
    gpu_seconds = 8 * 1e6 / large.numbers["tokens_per_s"]
    assert large.numbers["cost_per_million_tokens"] == pytest.approx(gpu_seconds * 3.6 / 3600)


def test_json_and_csv_hold_the_same(table):
    data = json.loads(json.dumps(table.to_json(), allow_nan=False))
    assert list(data) == ["schema", "name", "axes", "points", "fastest", "pareto"]
    assert data["axes"][0] == {"field": "parallel.schedule", "values": ["1f1b", "gpipe"]}
    lines = table.to_csv().splitlines()
    assert lines[0].split(",")[:6] == ["index", *(axis.field for axis in table.axes), "status", "reason"]
    assert lines[0].split(",")[6:] == [*NUMBERS, *(f"{name}_ns" for name in CLASSES)]
    assert len(lines) == 25
    assert data["points"][0]["set"] == {
        "parallel.schedule": "1f1b",
        "training.gradient_accumulation": 4,
        "parallel.pp": 4,
    }
    assert lines[1].split(",")[7] == str(data["points"][0]["step_time_ns"])


def test_a_journal_is_used_and_says_so(tmp_path, monkeypatch):
    journal = tmp_path / "j.jsonl"
    first = simgpu.sweep(GRID, jobs=1, journal=journal)
    content = journal.read_bytes()
    assert content.count(b"\n") == 1 + 24
    monkeypatch.setattr(point, "play_case", None)  # nothing is left to play
    assert simgpu.sweep(GRID, jobs=1, journal=journal).to_csv() == first.to_csv()
    assert journal.read_bytes() == content


def counted(monkeypatch):
    played = []
    real = point.play_case

    def play(case, *, fold):
        played.append(case)
        return real(case, fold=fold)

    monkeypatch.setattr(point, "play_case", play)
    return played


def test_only_what_changed_is_played_again(tmp_path, monkeypatch):
    journal = tmp_path / "j.jsonl"
    played = counted(monkeypatch)
    simgpu.sweep(GRID, jobs=1, journal=journal)
    assert len(played) == 12  # the other half is invalid
    wider = {**GRID, "sweep": {**GRID["sweep"], "training.gradient_accumulation": [4, 8, 12, 16, 20, 24, 28]}}
    simgpu.sweep({**wider, "name": "Another title"}, jobs=1, journal=journal)
    assert len(played) == 12 + 2
    slower = {**GRID, "model": {**GRID["model"], "forward_ns": "3 ms"}}
    assert simgpu.sweep(slower, jobs=1, journal=journal).points[0].numbers["step_time_ns"] == 7 * 5_000_000
    assert len(played) == 12 + 2 + 12


def test_another_simgpu_starts_anew(tmp_path, monkeypatch):
    journal = tmp_path / "j.jsonl"
    played = counted(monkeypatch)
    simgpu.sweep(GRID, jobs=1, journal=journal)
    monkeypatch.setattr(point, "code_version", lambda: "9.9+other")
    simgpu.sweep(GRID, jobs=1, journal=journal)
    assert len(played) == 24


def test_a_changed_topology_file_starts_anew(tmp_path, monkeypatch):
    played = counted(monkeypatch)
    text = (
        "name: pair\ndevices: {gpu: {kind: gpu, count: 2, model: A40}}\n"
        "links: [{from: gpu 0, to: gpu 1, type: GA102 bridge pair (3090/A6000)}]\n"
    )
    (tmp_path / "pair.yaml").write_text(text)
    scenario = {
        **GRID,
        "cluster": {"topology": str(tmp_path / "pair.yaml")},
        "parallel": {},
        "sweep": {"parallel.pp": [2]},
    }
    scenario["model"] = {**GRID["model"], "stages": 2}
    journal = tmp_path / "j.jsonl"
    for content in (text, text, text + "# changed\n"):
        (tmp_path / "pair.yaml").write_text(content)
        assert simgpu.sweep(scenario, jobs=1, journal=journal).points[0].status == "ok"
    assert len(played) == 2


def test_a_fault_of_simgpu_costs_one_point_and_is_tried_again(tmp_path, monkeypatch):
    journal = tmp_path / "j.jsonl"
    real = point.play_case

    def faulty(case, *, fold):
        if case.training.accumulation == 8:
            raise KeyError("nothing")
        return real(case, fold=fold)

    monkeypatch.setattr(point, "play_case", faulty)
    table = simgpu.sweep(GRID, jobs=1, journal=journal)
    assert [one.values[1] for one in table.points if one.status == "failed"] == [8, 8]
    assert {one.reason for one in table.points if one.status == "failed"} == {"SimGPU failed: KeyError: 'nothing'"}
    monkeypatch.setattr(point, "play_case", real)
    assert not [one for one in simgpu.sweep(GRID, jobs=1, journal=journal).points if one.status == "failed"]


def test_workers_of_another_simgpu_are_told_apart():
    task = point.point_task({"model": "gpt2"}, point.Path(), fold=True, digests={}, elsewhere=True)
    assert task.version == code_version()
    old = point.replace(task, version="0.0+old")
    assert "the worker runs SimGPU" in point.play_point(old)["reason"]
