"""Tables of many runs stay readable, and runs keep names that tell them apart."""

import re

import pytest
from rich.console import Console

from simgpu.cli.grid import Grid
from simgpu.cli.tables import breakdown_grid

STAGES = (
    "model: {stages: 2, forward_ns: 1 ms, backward_ns: 2 ms}\ncluster: {topology: dgx-a100, gpus: 2}\n"
    "training: {micro_batch_size: 1, gradient_accumulation: 4}\nnetwork: free\n"
)


@pytest.mark.parametrize("width", [60, 80, 160, 200])
def test_cells_are_never_broken(width, capsys):
    columns = [(f"run number {n}", ["5.445 s  71.8 %", "7.426 s 100.0 %"]) for n in range(9)]
    grid = Grid(title="t", corner="class", labels=["exposed communication: dp", "step"], columns=columns)
    console = Console(width=width, force_terminal=False)
    for table in grid.tables(width):
        console.print(table)
    out = capsys.readouterr().out
    assert out.count("71.8 % │") == out.count("100.0 % │") == 9
    assert "│ exposed communication: dp │" in out
    assert all(len(line) <= width for line in out.splitlines())


def test_classes_that_would_read_nothing_have_no_row():
    breakdown = {"compute.gemm": 1e6, "straggler": 0.5, "host": 499.0, "bubble": 600.0}
    grid = breakdown_grid("t", [("run", breakdown, 1_000_000)])
    assert grid.labels == ["compute: matrix products", "pipeline bubble", "step"]


def test_eight_variants_are_whole_when_piped(simgpu, tmp_path):
    variants = "".join(
        f"  - {{name: a variant {n}, set: {{training.gradient_accumulation: {n}}}}}\n" for n in range(1, 10)
    )
    (tmp_path / "s.yaml").write_text(STAGES + "variants:\n" + variants)
    out = simgpu("run", "s.yaml", "--no-html", "--rank", "1").out
    bubbles = [line for line in out.splitlines() if "pipeline bubble" in line and "│" in line]
    assert sum(len(re.findall(r"\d ms +\d+\.\d %", line)) for line in bubbles) == 2 * 9  # the mean, and rank 1's own


def test_a_file_compared_with_itself(simgpu, tmp_path):
    (tmp_path / "base.yaml").write_text(STAGES)
    out = simgpu("compare", "base.yaml", "base.yaml", "--no-html").out
    assert out.splitlines()[0] == "base"
    assert re.findall(r"^│ (base.*?) +│", out, re.MULTILINE)[:2] == ["base", "base (2)"]


def test_files_of_one_name_are_told_apart_by_their_folders(simgpu, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "base.yaml").write_text(STAGES)
    out = simgpu("compare", "a/base.yaml", "b/base.yaml", "--no-html").out
    assert re.findall(r"^│ (./base.*?) +│", out, re.MULTILINE)[:2] == ["a/base", "b/base"]
