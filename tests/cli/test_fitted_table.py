import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from simgpu.cli.fitted_table import Column, FittedTable, fitting, left_out

COLUMNS = (
    Column(name="op", cells=["attention.core", "x"], folds_to=6),
    Column(name="bytes", cells=["1", "22"], right=True, need=1),
    Column(name="time", cells=["5 us", "12 ms"], right=True),
    Column(name="rate", cells=["7", "8"], need=2),
)


def lines(table, width, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    Console(file=file, width=width).print(table)
    return file.buffer.getvalue().decode(encoding).splitlines()


def test_the_least_needed_go_first_and_the_needed_never():
    assert [[column.name for column in fitting(COLUMNS, width)] for width in (60, 30, 22, 5)] == [
        ["op", "bytes", "time", "rate"],
        ["op", "time", "rate"],
        ["op", "time"],
        ["op", "time"],
    ]
    assert left_out(COLUMNS, 30) == ("bytes",)


def test_what_is_too_wide_is_folded_and_what_is_indented_stays_so():
    table = FittedTable(columns=[Column(name="op", cells=["qkv\n  8 x 16 x 32"], folds_to=9)], title="t")
    assert lines(table, 14) == [
        "t", "┏━━━━━━━━━━━━┓", "┃ op         ┃", "┡━━━━━━━━━━━━┩", "│ qkv        │", "│   8 x 16 x │", "│   32       │",
        "└────────────┘",
    ]  # fmt: skip


def test_a_terminal_without_unicode_gets_plain_borders():
    assert lines(FittedTable(columns=COLUMNS, title="t", sections={1}), 60, "ascii")[1:6] == [
        "+----------------+-------+-------+------+", "| op             | bytes |  time | rate |",
        "+----------------+-------+-------+------+", "| attention.core |     1 |  5 us | 7    |",
        "+----------------+-------+-------+------+",
    ]  # fmt: skip


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), min_size=1, max_size=4), st.integers(20, 120))
def test_no_line_is_wider_than_the_terminal(rows, width):
    cells = [[" ".join(cell.split()) for cell in column] for column in zip(*rows, strict=True)]
    columns = [Column(name=f"c{at}", cells=column, folds_to=4, need=at) for at, column in enumerate(cells)]
    narrow = [cell for column in cells for cell in column if cell_len(cell) > len(cell)]
    if not narrow:
        assert all(cell_len(line) <= width for line in lines(FittedTable(columns=columns, title="t"), width))


@pytest.mark.parametrize("width", [10, 40])
def test_markup_in_cells_is_text(width):
    (_, _, _, _, row, *_) = lines(FittedTable(columns=[Column(name="id", cells=["[b]x"])], title="t"), width)
    assert "[b]x" in row
