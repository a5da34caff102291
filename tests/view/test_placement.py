"""Rows stand under each other, streams of one axis together."""

import numpy as np

from simgpu.view.lanes import Lane
from simgpu.view.placement import placement


def lanes(*streams, variant=0, group=0, title="rank 0"):
    return [Lane(variant=variant, group=group, title=title, stream=stream) for stream in streams]


def edges(rows):
    return np.stack((rows.middle - rows.thickness / 2, rows.middle + rows.thickness / 2), axis=1)


def test_no_two_rows_touch():
    many = [*lanes("compute", "tp", "pp recv forward", "pp send forward"), *lanes("compute", "dp", group=1),
            *lanes("compute", variant=2)]  # fmt: skip
    rows = placement(many)
    found = edges(rows)
    assert (found[1:, 0] > found[:-1, 1]).all()
    assert found[0, 0] > rows.header[0]
    assert found[-1, 1] < rows.height


def test_streams_of_one_axis_share_a_label():
    rows = placement(lanes("compute", "tp", "pp recv forward", "pp send forward", "pp recv backward"))
    assert rows.label == ("rank 0 · compute", "· tp", "· pp")
    assert rows.tick[2] == rows.middle[3]
    assert rows.thickness[2] < rows.thickness[1] < rows.thickness[0]


def test_every_variant_has_its_headline_and_frame():
    rows = placement([*lanes("compute"), *lanes("compute", "dp", variant=1), *lanes("compute", variant=3)])
    assert rows.variant == (0, 1, 3)
    found = edges(rows)
    assert [top < found[i, 0] and found[j, 1] < bottom for (top, bottom), i, j in
            zip(rows.frame, (0, 1, 3), (0, 2, 3), strict=True)] == [True] * 3  # fmt: skip
    assert all(header < top for header, (top, _) in zip(rows.header, rows.frame, strict=True))


def test_the_first_row_of_a_class_names_it_even_without_compute():
    assert placement(lanes("dp", "pp", title="ranks 0–7")).label == ("ranks 0–7 · dp", "· pp")
