"""Maps, Pareto plot and page of a sweep, from hand-made points."""

from itertools import product

import pytest

from simgpu.metrics.assumption import Assumption
from simgpu.metrics.sweep_table import INVALID, OK, PointResult, SweepAxis, SweepTable, pareto_front
from simgpu.metrics.sweep_verdict import describe_sweep, reasons
from simgpu.view import heat_map, pareto
from simgpu.view.sweep_page import sweep_page

GIB = 2**30


def table(*sizes, numbers=None, status=None, name="a <grid>"):
    """A grid whose axes are a, b, c, ... with values 0, 1, ...; by default the step takes index + 1 seconds."""
    axes = tuple(
        SweepAxis(field="abcdef"[place], values=tuple(range(size)), labels=tuple(f"v{n}" for n in range(size)))
        for place, size in enumerate(sizes)
    )
    points = []
    for index, values in enumerate(product(*(range(size) for size in sizes))):
        own = {
            "gpus": 8, "step_time_ns": (index + 1) * 10**9, "tokens_per_step": 100, "tokens_per_s": 50.0, "mfu": 0.4,
            "tokens_per_s_per_gpu": 6.25, "hfu": 0.4, "bubble_fraction": 0.1, "overlap_ratio": 0.0,
            "peak_memory_bytes": 40 * GIB, "capacity_bytes": 80 * GIB, "fits": True, "hours": None, "gpu_hours": None,
            "cost": None, "cost_per_million_tokens": None, "breakdown_ns": {}, "warnings": [],
        }  # fmt: skip
        state, reason = (status or {}).get(index, (OK, ""))
        points.append(
            PointResult(
                index=index,
                values=values,
                labels=tuple(f"v{n}" for n in values),
                status=state,
                reason=reason,
                numbers={**own, **(numbers or {}).get(index, {})} if state == OK else {},
            )
        )
    return SweepTable(name=name, axes=axes, points=tuple(points))


def seconds(grid):
    return heat_map.time_quantity(grid)


def test_every_point_is_in_its_cell():
    grid = table(3, 4)
    spec = heat_map.spec(grid, seconds(grid))
    (panel,) = spec["data"]
    assert panel["z"] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]  # b, the last axis, runs across
    assert spec["layout"]["xaxis"]["title"]["text"] == "b"
    assert spec["layout"]["yaxis"]["ticktext"] == ["v0", "v1", "v2"]


def test_the_two_longest_axes_are_the_map_and_the_others_are_panels():
    grid = table(4, 2, 3)
    assert heat_map.map_axes(grid) == (2, 0)
    first, second = heat_map.spec(grid, seconds(grid))["data"]
    assert first["z"] == [[1, 2, 3], [7, 8, 9], [13, 14, 15], [19, 20, 21]]
    assert second["z"] == [[4, 5, 6], [10, 11, 12], [16, 17, 18], [22, 23, 24]]
    titles = [one["text"] for one in heat_map.spec(grid, seconds(grid))["layout"]["annotations"]]
    assert titles == ["b = v0", "b = v1"]


def test_many_panels_are_chosen_from_a_list():
    grid = table(7, 8, 9)
    spec = heat_map.spec(grid, seconds(grid))
    (menu,) = spec["layout"]["updatemenus"]
    assert [button["label"] for button in menu["buttons"]] == [f"a = v{n}" for n in range(7)]
    assert [panel["visible"] for panel in spec["data"]] == [True] + [False] * 6
    assert menu["buttons"][2]["args"][0]["visible"] == [False, False, True] + [False] * 4
    assert {panel["xaxis"] for panel in spec["data"]} == {"x"}


def test_one_axis_is_one_row():
    grid = table(5)
    (panel,) = heat_map.spec(grid, seconds(grid))["data"]
    assert panel["z"] == [[1, 2, 3, 4, 5]]


def test_what_does_not_fit_has_no_speed_but_memory_and_what_is_invalid_neither():
    grid = table(1, 3, numbers={1: {"fits": False, "peak_memory_bytes": 100 * GIB}}, status={2: (INVALID, "a <b>")})
    (speed,) = heat_map.spec(grid, seconds(grid))["data"]
    assert (speed["z"], speed["text"]) == ([[1, None, None]], [["1 s", "OOM", "–"]])
    assert speed["customdata"][0][2] == "<b>a = v0, b = v2</b><br>a &lt;b&gt;"
    (memory,) = heat_map.spec(grid, heat_map.memory_quantity())["data"]
    assert (memory["z"], memory["text"]) == ([[40, 100, None]], [["40", "OOM 100", "–"]])


def test_the_front_has_exactly_what_nothing_beats():
    memory = {0: 30, 1: 20, 2: 25, 3: 10, 4: 10, 5: 40}
    numbers = {index: {"peak_memory_bytes": size * GIB} for index, size in memory.items()}
    grid = table(6, numbers=numbers)  # times 1 ... 6 s
    front = pareto_front(grid.points, lambda one: one.numbers["peak_memory_bytes"], grid.time_ns)
    assert [one.index for one in front] == [3, 1, 0]
    fits, line = pareto.memory_spec(grid)["data"]
    assert (line["x"], line["y"]) == ([10, 20, 30], [4, 2, 1])
    assert len(fits["x"]) == 6
    assert grid.to_json()["pareto"] == [3, 1, 0]


def test_points_that_do_not_fit_are_drawn_and_beat_nobody():
    grid = table(2, numbers={0: {"fits": False, "peak_memory_bytes": 90 * GIB}})
    full, fits, line = pareto.memory_spec(grid)["data"]
    assert (full["x"], fits["x"], line["x"]) == ([90], [40], [40])


def test_cost_is_drawn_where_it_is_known():
    assert pareto.cost_spec(table(2)) is None
    grid = table(2, numbers={0: {"cost_per_million_tokens": 3.0}, 1: {"cost_per_million_tokens": 2.0}})
    _, line = pareto.cost_spec(grid)["data"]
    assert (line["x"], line["y"]) == ([2.0, 3.0], [2, 1])


def test_cost_where_only_some_points_have_one():
    grid = table(3, numbers={0: {"cost_per_million_tokens": 3.0}})
    fits, line = pareto.cost_spec(grid)["data"]
    assert (fits["x"], line["x"]) == ([3.0], [3.0])


def test_verdict():
    grid = table(2, 2, numbers={1: {"fits": False}, 2: {"peak_memory_bytes": 8 * GIB}}, status={3: (INVALID, "no")})
    assert describe_sweep(grid).splitlines() == [
        "Fastest that fits: a = v0, b = v0: 1 s a step, 40 GiB of 80 GiB",
        "3.00× as fast as the slowest that fits (a = v1, b = v0)",
        "Least memory: a = v1, b = v0: 8 GiB of 80 GiB, 3 s a step",
        "4 points, 1 out of memory, 1 that cannot be laid out",
    ]
    assert reasons(grid) == ["1× no"]


def test_many_reasons_are_cut():
    grid = table(9, status={n: (INVALID, f"reason {n}") for n in range(8)})
    assert reasons(grid) == [*(f"1× reason {n}" for n in range(5)), "3 other reasons; all are in the table"]


@pytest.mark.parametrize("sizes", [(1,), (3, 4), (2, 2, 2, 2, 2)])
def test_the_page_escapes_and_is_whole(sizes):
    page = sweep_page(table(*sizes, status={0: (INVALID, "<script>")}))
    assert "a &lt;grid&gt;" in page
    assert "&lt;script&gt;" in page
    assert page.count("data-figure=") == 3


def test_the_page_ends_with_the_scenario_and_what_it_rests_on():
    one = Assumption(topic="GPU", what="rate", value="<1>", standing="assumed", source="a paper")
    page = sweep_page(table(2), scenarios=[("x.yaml", "model: x")], assumptions=[one])
    assert page.index("model: x") < page.index("&lt;1&gt;") < page.index("a paper")


def test_a_page_without_any_point_that_fits():
    page = sweep_page(table(2, numbers={0: {"fits": False}, 1: {"fits": False}}))
    assert 'class="bad"' in page
