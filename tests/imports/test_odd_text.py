"""Texts that nobody means well with: control characters in names, brackets in brackets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.kinds import read_foreign

RED = "\x1b[31mred\x1b[0m"


def test_control_characters_are_written_as_escapes(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"zero_optimization": {"stage": 2}, RED: 1, "a\nmodel: b": 2, f"_{RED}": 3}))
    run = import_run([path], RunAnswers(model="gpt2", topology="dgx-a100"))
    assert run.unknown == (r"ds.json: \x1b[31mred\x1b[0m, a\nmodel: b",)
    (reading,) = run.readings
    assert r"_\x1b[31mred\x1b[0m" in reading.idle
    assert all(text.isprintable() for text in (*run.notes, *run.assumed, *run.unknown))


def test_messages_have_no_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"zero_optimization": {"stage": 2}, "train_batch_size": RED}))
    with pytest.raises(ScenarioError) as caught:
        read_foreign(path)
    assert str(caught.value).isprintable()
    assert "train_batch_size = \\x1b[31mred\\x1b[0m: is no whole number" in str(caught.value)
    assert str(Issue(field="a", problem="schön 模型")) == "a: schön 模型"


@pytest.mark.parametrize("depth", [60, 300, 50_000])
def test_deep_yaml_is_refused_in_a_short_sentence(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("base_model: a\nb: " + "[" * depth + "]" * depth)
    with pytest.raises(ScenarioError, match="nested too deeply; allowed: 50 levels") as caught:
        read_foreign(path)
    assert len(str(caught.value)) < 100
