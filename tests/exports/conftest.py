"""Exports into folders, by the command's own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from simgpu.cli.export import export_command
from simgpu.io.scenario_yaml import to_scenario_yaml

Export = Callable[..., Path]

SMALL: Mapping[str, Any] = {
    "model": {"layers": 8, "hidden": 512, "heads": 8, "ffn": 1408, "vocab": 32000},
    "cluster": {"topology": "dgx-a100"},
    "training": {"sequence_length": 512, "micro_batch_size": 2, "gradient_accumulation": 4},
}
"""A run that plays in no time."""


def deep(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Lay blocks over blocks; None takes a field out."""
    result = {**base}
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = deep(result[key], value) if both else value
        if value is None:
            del result[key]
    return result


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Write a scenario, or take a bundled one, and export it to a folder."""

    def run(
        form: str, scenario: str | Mapping[str, Any], case: str | None = None, out: str = "", **changes: Any
    ) -> Path:
        if not isinstance(scenario, str):
            path = tmp_path / "s.yaml"
            path.write_text(to_scenario_yaml(deep(scenario, changes)), encoding="utf-8")
            scenario = str(path)
        folder = tmp_path / (out or form)
        export_command(scenario, form=form, out=str(folder), case=case, overrides=(), waits=False, all_ranks=False)
        return folder

    return run
