"""A schedule is played by its orders, not by its name: from the CSV of itself it takes the same time, to the ns."""

from dataclasses import replace

import pytest

from simgpu.api import simulate
from simgpu.io.schedule_csv import write_schedule_csv
from simgpu.parallel.message_batches import can_batch
from simgpu.parallel.pipeline import pipeline_schedule
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, build_schedule
from tests.lower.tiny import tiny

IN_A_FILE = [name for name in PIPELINE_SCHEDULES if name != "dualpipe"]  # which PyTorch's CSV cannot hold
MODES = [
    pytest.param({}, id="batched"),
    pytest.param({"overlap_p2p": True}, id="overlapped"),
    pytest.param({"tp": 2, "scatter_gather_tensors_in_pipeline": True}, id="scatter_gather"),
]


def played(microbatches, model, **parallel):
    tp = parallel.get("tp", 1)
    case = tiny(gpus=4 * tp, model=model, training={"gradient_accumulation": microbatches}, **parallel)
    report = simulate(case)
    return case, report.step_time_ns, [rank.breakdown_ns for rank in report.ranks]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("microbatches", [8, 10])
@pytest.mark.parametrize("name", IN_A_FILE)
def test_a_schedule_and_its_own_csv_take_the_same_time(tmp_path, name, microbatches, mode):
    case, step_ns, parts = played(microbatches, {"layers": 16}, pp=4, schedule=name, **mode)
    path = tmp_path / "mine.csv"
    path.write_text(write_schedule_csv(pipeline_schedule(case.strategy, microbatches)))
    assert played(microbatches, {"layers": 16}, schedule=str(path), **mode)[1:] == (step_ns, parts)


def test_idle_cells_do_not_matter(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n")
    parallel = {"pp": 2, "schedule": "1f1b"}
    named = simulate(tiny(training={"gradient_accumulation": 3}, **parallel))
    read = simulate(tiny(training={"gradient_accumulation": 3}, schedule=str(path)))
    assert read.step_time_ns == named.step_time_ns


def test_a_name_makes_no_order(tmp_path):
    """ZB-H1's order in a file called 1f1b.csv stays ZB-H1's."""
    path = tmp_path / "1f1b.csv"
    path.write_text(write_schedule_csv(build_schedule("zbh1", ranks=4, microbatches=8)))
    case, step_ns, _ = played(8, {"layers": 16}, schedule=str(path))
    assert case.strategy.schedule == "1f1b.csv"
    assert step_ns == played(8, {"layers": 16}, pp=4, schedule="zbh1")[1]


def test_any_change_of_order_leaves_megatrons_batches():
    """They are only known to end for its own orders."""
    schedule = build_schedule("1f1b", ranks=2, microbatches=4)
    first = [slot for slot in schedule.rows[0] if slot]
    eager = replace(
        schedule, name="1f1b", rows=((first[0], first[1], first[3], first[2], *first[4:]), schedule.rows[1])
    )
    assert can_batch(replace(schedule, name="mine"))
    assert not can_batch(eager)
