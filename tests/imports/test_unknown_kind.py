"""What is said of files that no reader recognises."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.kinds import read_foreign


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.yaml", "name: x\nmodel: gpt2\ncluster: {topology: dgx-a100}\n", "a.yaml: is a SimGPU scenario already"),
        (
            "a.yaml",
            "actor_rollout_ref: {model: {path: x}}\n",
            "is verl's, whose step is more than one model's training",
        ),
        ("a.yaml", "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {}\n", "a.yaml: is a manifest of Kubernetes"),
        ("a.yaml", "resources: {}\nrun: torchrun t.py\n", "is a task of SkyPilot; fix: give what stands under run"),
        ("a.yaml", "spam: 1\neggs: [2]\n", "of a known kind: its keys are spam, eggs; allowed: launch lines and shell"),
        (
            "a.json",
            '{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}',
            "keys are a, b, c, d, e, f, ...; allowed",
        ),
        ("a.toml", "spam = 1\n", "is no configuration of a known kind"),
        ("a.txt", "hello\n", "a.txt: is no configuration of a known kind; allowed: launch lines"),
    ],
)
def test_they_are_told_by_their_keys(name: str, text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        read_foreign(path)
    assert told in str(caught.value)
