"""A file that a script writes may name another one that the script writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError

SCRIPT = """#!/bin/bash
cat > ds.json <<'EOF'
{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": "auto",
 "gradient_accumulation_steps": "auto"}
EOF
cat > sft.yaml <<'EOF'
model_name_or_path: meta-llama/Llama-3.1-8B
cutoff_len: 2048
finetuning_type: full
stage: sft
bf16: true
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
deepspeed: ds.json
EOF
"""


def imported(tmp_path: Path, script: str) -> dict[str, Any]:
    path = tmp_path / "run.sh"
    path.write_text(script, encoding="utf-8")
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 1}}', encoding="utf-8")  # of another day
    return import_run([path], RunAnswers(topology="dgx-h100", gpus=8)).data


@pytest.mark.parametrize("argument", ["", " per_device_train_batch_size=1"])
def test_both_are_taken_from_the_script(tmp_path: Path, argument: str) -> None:
    data = imported(tmp_path, SCRIPT + "FORCE_TORCHRUN=1 llamafactory-cli train sft.yaml" + argument + "\n")
    assert data["parallel"]["data_parallel"] == "zero3"
    assert data["training"]["micro_batch_size"] == (1 if argument else 2)


def test_one_that_only_a_run_tells_is_refused(tmp_path: Path) -> None:
    script = SCRIPT + "sed -i 's/3/2/' ds.json\nFORCE_TORCHRUN=1 llamafactory-cli train sft.yaml\n"
    with pytest.raises(ScenarioError, match=r"ds\.json.*sed -i"):
        imported(tmp_path, script)
