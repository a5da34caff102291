"""What ``simgpu ops --csv`` writes says all that decides a time: read back as measured, it changes nothing."""

import csv

import pytest

from simgpu.config.load import load_cases
from simgpu.config.op_table import COLUMNS, export_rows, read_op_table, scenario_table
from simgpu.errors import ScenarioError
from simgpu.hardware.gpu import gpu
from simgpu.io.op_table import op_table_text
from simgpu.pricing import ops
from simgpu.workload.op import MemoryBound

SCENARIOS = {
    "dense": {"model": "llama-2-7b", "training": {"recompute": "full"}, "parallel": {"tp": 2, "pp": 2}},
    "fsdp in fp8": {"model": "llama-3-8b", "training": {"precision": "fp8"}, "parallel": {"data_parallel": "fsdp"}},
    "experts": {"model": "mixtral-8x7b", "training": {"moe_imbalance": 1.5}, "parallel": {"ep": 4, "pp": 2}},
    "eager": {"model": "gpt2", "training": {}, "parallel": {"data_parallel": "ddp"}, "software": "eager"},
}


def case(scenario, **rest):
    training = {"sequence_length": 1024, "micro_batch_size": 1, "global_batch_size": 8, **scenario["training"]}
    whole = {**scenario, "training": training, "cluster": {"topology": "dgx-h100", "gpus": 8}, **rest}
    return load_cases(whole)[0]


def filled_in(report, path):
    rows = [{**row, "model_us": None} for row in export_rows((report.gpu, row) for row in report.rows)]
    path.write_text(op_table_text(rows, COLUMNS), encoding="utf-8")


@pytest.mark.parametrize("name", SCENARIOS)
def test_times_come_back_as_they_went(tmp_path, name):
    path = tmp_path / "my_ops.csv"
    before = ops(case(SCENARIOS[name]))
    filled_in(before, path)
    after = ops(case(SCENARIOS[name], costs={"table": str(path)}))
    assert after.step.time_ns == before.step.time_ns
    assert [(row.op, row.time_ns) for row in after.rows] == [(row.op, row.time_ns) for row in before.rows]
    sources = {row.origin.source for row in after.rows if row.time_ns and row.origin.source != "given"}
    assert sources == {"table exact"}


def test_what_the_optimizer_touches_is_another_op(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "kind,bytes,op_class,time_us\nmemory_bound,4096,,5\nmemory_bound,4096,optimizer,7\n", encoding="utf-8"
    )
    table = scenario_table(path, "t.csv", gpu("H100-SXM5-80GB"))
    times = [
        table.time(MemoryBound(name="x", bytes=4096, op_class=kind)).time_ns for kind in ("memory_bound", "optimizer")
    ]
    assert times == [5000, 7000]


@pytest.mark.parametrize("read", [read_op_table, lambda path: scenario_table(path, path.name, gpu("H100-SXM5-80GB"))])
def test_a_column_that_means_nothing_is_refused_by_name(tmp_path, read):
    path = tmp_path / "t.csv"
    path.write_text("kind,m,n,k,dtyp,notes,gpu,time_us\ngemm,8,8,8,fp16,mine,h200,5\n", encoding="utf-8")
    with pytest.raises(
        ScenarioError, match=r"t\.csv:1: dtyp: is no column of such a table; allowed: kind, op, m.*dtype"
    ):
        read(path)


def test_every_column_that_is_written_is_read(tmp_path):
    path = tmp_path / "t.csv"
    filled_in(ops(case(SCENARIOS["experts"])), path)
    with path.open(encoding="utf-8", newline="") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS
    assert len(read_op_table(path).rows) > 20
