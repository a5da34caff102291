"""Packed bars: what goes in comes out."""

import base64
import gzip

import numpy as np

from simgpu.view import gantt
from simgpu.view.lanes import PAINTS, chart
from simgpu.view.levels import levels
from simgpu.view.placement import placement
from simgpu.view.released import released
from tests.view.many import many_bars
from tests.view.reports import pipeline


def unpack(found):
    content = gzip.decompress(base64.b64decode(found["columns"]))
    n, lanes = found["bars"], len(found["middle"])
    columns, at = [], 0
    sizes = [("<u4", lanes + 1), *[("<u4", n)] * 4, ("<i4", n), ("<i2", n), ("u1", n), ("u1", n)]
    for dtype, length in sizes:
        columns.append(np.frombuffer(content, dtype, length, at))
        at += columns[-1].nbytes
    assert at == len(content)
    return columns


def test_round_trip():
    drawing = chart([many_bars(3_000)])
    drawn = drawing.drawn
    found = levels(drawing, placement(drawing.lanes), int(drawn.end_ns.max()), released(drawing, []))
    first, start, length, label, source, microbatch, stage, paint, reason = unpack(found)
    assert set(source.tolist()) == {0xFFFFFFFF}
    assert set(stage.tolist()) == {-1}
    assert {found["reasons"][one] for one in reason.tolist()} == {"start"}
    assert found["tick_ns"] == 1
    assert np.array_equal(start, drawn.start_ns)
    assert np.array_equal(start + length, drawn.end_ns)
    assert np.array_equal(np.repeat(np.arange(len(drawing.lanes)), np.diff(first)), drawn.lane)
    assert np.array_equal(paint, drawn.paint)
    bars = [drawing.bars[row] for row in drawn.first]
    assert microbatch.tolist() == [bar.microbatch for bar in bars]
    for bar, row in zip(bars, label, strict=True):
        assert f"rank {bar.rank} · {bar.stream}" in found["labels"][row]
    assert not any("<all_reduce>" in words for words in found["labels"])
    assert len(found["paints"]) == len(PAINTS)


def test_long_steps_lose_less_than_a_tick():
    drawing = chart([many_bars(3_000)])
    horizon = 100 * 10**9  # a hundred seconds
    found = levels(drawing, placement(drawing.lanes), horizon, released(drawing, []))
    _, start, length, *_ = unpack(found)
    tick = found["tick_ns"]
    assert tick == 24
    assert np.all(drawing.drawn.start_ns - start.astype(np.int64) * tick < tick)
    assert np.all(np.abs(drawing.drawn.end_ns - (start + length).astype(np.int64) * tick) < tick)


def test_pages_carry_them_and_large_ones_draw_from_them():
    assert "levels" not in gantt.spec([pipeline()])
    assert not gantt.spec([pipeline()], levels=True)["levels"]["redraw"]
    large = many_bars(20_000)
    assert "levels" not in gantt.spec([large])
    spec = gantt.spec([large], levels=True)
    assert spec["levels"]["redraw"]
    assert spec["levels"]["bars"] > gantt.MAX_BARS
    assert sum(len(one["x"]) for one in spec["data"]) <= gantt.MAX_BARS
