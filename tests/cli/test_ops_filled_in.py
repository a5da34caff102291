"""A table of a scenario's ops: written, filled in, and what it decides."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.ops_reports import report, written


@pytest.fixture
def scenario(tmp_path):
    return written(tmp_path)


def export(simgpu, scenario):
    assert simgpu("ops", scenario, "--csv", "my_ops.csv").code == 0
    with Path("my_ops.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def save(rows):
    with Path("my_ops.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def step_us(simgpu, scenario, *more):
    outcome = simgpu("run", scenario, "--no-html", "--json", "-", *more)
    assert outcome.code == 0, outcome.err
    (run,) = json.loads(outcome.out)["runs"]
    return run["step_time_ns"] / 1e3, run["op_table"], outcome.err


def test_an_exported_table_that_was_not_filled_in_changes_nothing(simgpu, scenario):
    rows = export(simgpu, scenario)
    assert len({tuple(row.items()) for row in rows}) == len(rows)
    plain, none, _ = step_us(simgpu, scenario)
    same, table, _ = step_us(simgpu, scenario, "--set", "costs.table=my_ops.csv")
    assert (same, none) == (plain, None)
    assert table == {"name": "my_ops.csv", "shapes": len(rows), "exact": 0, "interpolated": 0, "notes": []}


def test_a_filled_in_table_decides(simgpu, scenario):
    rows = export(simgpu, scenario)
    for row in rows:
        if row["op"] in ("attention.qkv", "norm1"):
            row["time_us"] = str(float(row["time_us"]) + 100)
    save(rows)
    (case,) = report(simgpu, scenario, "--set", "costs.table=my_ops.csv")["cases"]
    found = {row["op"]: row["source"] for row in case["rows"] if row["phase"] == "forward"}
    assert (found["attention.qkv"], found["norm1"], found["norm2"]) == ("table exact", "table exact", "model")
    assert case["table"]["exact"] == 2
    plain, _, _ = step_us(simgpu, scenario)
    slower, table, printed = step_us(simgpu, scenario, "--set", "costs.table=my_ops.csv")
    # Two stages of 16 blocks and 8 micro-batches in a pipeline of 9 slots: 2 x 100 us for each block that is passed.
    assert slower - plain == pytest.approx(2 * 100 * 16 * 9, rel=0.02)
    assert table["exact"] == 2
    assert f"2 of {table['shapes']} op shapes from my_ops.csv" in printed


def test_the_table_may_be_the_whole_step(simgpu, scenario):
    rows = export(simgpu, scenario)
    for row in rows:
        row["time_us"], row["model_us"] = "10", ""
    save(rows)
    (case,) = report(simgpu, scenario, "--set", "costs.table=my_ops.csv")["cases"]
    assert {(row["source"], row["time_us"]) for row in case["rows"]} == {("table exact", 10.0)}


def test_between_measured_shapes_it_says_interpolated(simgpu, scenario, tmp_path):
    (tmp_path / "t.csv").write_text("kind,m,n,k,time_us\ngemm,1024,1536,4096,50\ngemm,4096,1536,4096,200\n")
    (case,) = report(simgpu, scenario, "--set", "costs.table=t.csv")["cases"]
    (qkv,) = (row for row in case["rows"] if row["op"] == "attention.qkv")
    assert (qkv["source"], qkv["source_detail"]) == ("table interpolated", "t.csv")
    assert qkv["time_us"] == pytest.approx(100, rel=1e-4)


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ((), []),
        (("costs.power_cap_w=500",), ["costs.rates and costs.power_cap_w change the model's times, not measured ones"]),
        (("costs.rates=peak",), ["costs.rates and costs.power_cap_w change the model's times, not measured ones"]),
    ],
)
def test_rates_and_caps_leave_measured_times_alone_and_it_is_said(simgpu, scenario, tmp_path, settings, notes):
    (tmp_path / "t.csv").write_text("kind,m,n,k,time_us\ngemm,2048,1536,4096,60\n")
    chosen = [part for setting in ("costs.table=t.csv", *settings) for part in ("--set", setting)]
    outcome = simgpu("ops", scenario, *chosen, "--json", "-")
    (case,) = json.loads(outcome.out)["cases"]
    (qkv,) = (row for row in case["rows"] if row["op"] == "attention.qkv")
    assert (qkv["time_us"], case["table"]["notes"]) == (60, notes)
    assert all(note in outcome.err for note in notes)


def test_a_measured_time_that_no_device_reaches_is_said(simgpu, scenario, tmp_path):
    (tmp_path / "t.csv").write_text("kind,m,n,k,time_us\ngemm,2048,1536,4096,0.06\n")
    _, table, printed = step_us(simgpu, scenario, "--set", "costs.table=t.csv")
    (note,) = table["notes"]
    assert note == (
        "1 of these times is faster than the datasheet allows, attention.qkv 434 times: are they microseconds?"
    )
    assert note in " ".join(printed.split())


def test_the_scenario_and_its_table_are_never_overwritten(simgpu, scenario):
    before = Path(scenario).read_text()
    export(simgpu, scenario)
    table = Path("my_ops.csv").read_text()
    for option, path in (("--csv", "my_ops.csv"), ("--json", "my_ops.csv"), ("--csv", scenario)):
        outcome = simgpu("ops", scenario, "--set", "costs.table=my_ops.csv", option, path)
        assert outcome.code == 2
        assert "was read for this run and would be replaced" in outcome.err
    assert (Path(scenario).read_text(), Path("my_ops.csv").read_text()) == (before, table)
