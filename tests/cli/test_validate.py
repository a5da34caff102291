"""``simgpu validate`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.validate.tables import write_table


def test_table_json_and_page(tmp_path: Path, simgpu):
    table = write_table(tmp_path / "t.csv", [{"id": "a"}, {"id": "b", "micro_batch": ""}])
    page = tmp_path / "v.html"
    outcome = simgpu("validate", str(table), "--json", "-", "--html", str(page), "--jobs", "1")
    assert outcome.code == 0, outcome.err
    data = json.loads(outcome.out)
    assert set(data) == {"rows", "skipped", "families", "mape", "bias"}
    assert [row["id"] for row in data["rows"]] == ["a"]
    assert data["skipped"] == [{"id": "b", "reason": "micro_batch is unstated"}]
    assert "gemm" in outcome.err
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_messages(tmp_path: Path, simgpu):
    table = write_table(tmp_path / "t.csv", [{"id": "a"}])
    for arguments, words in (
        (("no-such-file.csv",), "no-such-file.csv"),
        ((str(table), "--where", "tier=Z"), "leaves no run"),
        ((str(table), "--jobs", "0"), "out of range"),
        ((str(table), "--html", str(table)), "would be replaced"),
    ):
        outcome = simgpu("validate", *arguments)
        assert outcome.code == 2, arguments
        assert words in outcome.err
        assert "Traceback" not in outcome.err
