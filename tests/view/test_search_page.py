"""The page of a search."""

import re

from simgpu.metrics.assumption import Assumption
from simgpu.view.search_page import search_page

BASE = {"bound_ns": 900_000, "memory_bound_bytes": 1, "capacity_bytes": 80 << 30, "mfu": 0.4, "bubble_fraction": 0.1}


def candidate(status, step_ns=None, *, tp=1, reason=""):
    numbers = {} if step_ns is None else {
        "step_time_ns": step_ns, "peak_memory_bytes": 70 << 30, "breakdown_ns": {"compute.gemm": float(step_ns)},
    }  # fmt: skip
    return {"index": 0, "set": {"tp": tp, "data_parallel": "fsdp"}, "status": status, "reason": reason} | BASE | numbers


FOUND = {
    "name": "a <b> search", "axes": {"tp": [1, 2, 4], "data_parallel": ["fsdp"]}, "winner": 0,
    "candidates": [
        candidate("winner", 1_000_000),
        candidate("slower", 1_500_000, tp=2, reason="50.0 % slower: <i>"),
        candidate("out_of_memory", 800_000, tp=4, reason="does not fit"),
        candidate("bound", tp=8, reason="takes at least 2 ms"),
        candidate("invalid", tp=3, reason="3 does not divide 32 heads"),
    ],
}  # fmt: skip


def test_verdict_figures_table_and_the_winner_to_copy():
    page = search_page(FOUND, verdict="tp 1 wins", scenario="model: x\n")
    assert page.index("tp 1 wins") < page.index('id="breakdown"') < page.index('id="scatter"') < page.index("<table")
    assert "model: x" in page
    assert "1 × 3 does not divide 32 heads" in page
    assert "<i>" not in page.split("<script>")[0]
    assert "≥ 900 us" in page


def test_every_cell_stands_under_its_head():
    page = search_page(FOUND, verdict="v", scenario="")
    heads = re.findall(r"<th[ >]", page)
    (first, *_) = re.findall(r"<tbody>(<tr>.*?</tr>)", page, re.DOTALL)
    assert first.count("<td") == len(heads)


def test_the_page_ends_with_what_it_rests_on():
    one = Assumption(topic="GPU", what="rate", value="<1>", standing="assumed", source="a paper")
    page = search_page(FOUND, verdict="v", scenario="model: y\n", scenarios=[("x.yaml", "model: x")], assumptions=[one])
    assert page.index("model: y") < page.index("model: x") < page.index("&lt;1&gt;") < page.index("a paper")


def test_nothing_fits():
    page = search_page(FOUND | {"candidates": FOUND["candidates"][2:], "winner": None}, verdict="none", scenario="")
    assert '<h1 class="bad">' in page
    assert 'id="breakdown"' not in page
    assert 'id="scatter"' in page
    assert "<button data-copy" not in page
