"""The section of levers in the report."""

from dataclasses import replace

import simgpu
from simgpu.metrics.advice import Advice
from simgpu.view import advice
from simgpu.view.report import html

ONE = Advice(
    lever="overlap", settings={"zero.overlap_comm": True}, option="<b>overlap_comm</b>", step_time_ns=10**9,
    tokens_per_s_gain=0.125, peak_memory_bytes=1 << 30, batch_factor=2.0,
)  # fmt: skip


def report(**changes):
    (found, *_) = simgpu.run("pipeline_ideal")
    return replace(found, **changes)


def test_levers_are_listed_and_escaped():
    part = advice.table([report(disappointments=("slow <x>",), advice=(ONE,))])
    assert "slow &lt;x&gt;" in part
    assert "zero.overlap_comm: true" in part
    assert "&lt;b&gt;overlap_comm" in part
    assert "+12.5 %" in part
    assert "2 times as large" in part


def test_what_was_not_tried_or_does_not_help_is_said():
    assert "--advice" in advice.table([report(disappointments=("slow",), advice=None)])
    assert "None of the usual levers" in advice.table([report(disappointments=("slow",), advice=())])


def test_the_page_has_the_section_only_where_something_disappoints():
    assert "What would help" in html([report(disappointments=("slow",), advice=(ONE,))], title="t", verdict="v")
    assert "What would help" not in html([report(disappointments=(), advice=None)], title="t", verdict="v")
