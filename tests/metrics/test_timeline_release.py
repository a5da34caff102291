"""A Timeline goes when nobody names it any more: what metrics and views keep with it does not name it."""

import gc
import weakref

from simgpu.api import simulate
from simgpu.config import load_scenario
from simgpu.timeline import reported
from simgpu.view.report import html


def test_a_reported_and_drawn_timeline_is_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        report = simulate(load_scenario("zero_stages").cases[0])
        html([report], title="t", verdict="v")
        left = weakref.ref(report.timeline.derived(reported).spans.rank)
        del report
        assert left() is None
    finally:
        gc.enable()
