"""Fusions that a scenario switches off, in Megatron's launch script and back."""

from __future__ import annotations

from typing import Any

import pytest

from simgpu.config.exported_run import export_run
from simgpu.config.load import load_cases
from simgpu.io.scenario_yaml import to_scenario_yaml
from tests.exports.conftest import SMALL, deep

GPT = {
    "model": {
        **SMALL["model"],
        "mlp": "gelu",
        **dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias"), True),
        "positions": "learned",
        "max_positions": 512,
    }
}


@pytest.mark.parametrize(
    ("software", "model", "words"),
    [
        ({"preset": "te", "unfused": ["rope", "bias_activation"]}, {}, ["--no-rope-fusion", "--no-bias-swiglu-fusion"]),
        ({"preset": "te", "unfused": ["bias_dropout", "gradient_accumulation"]}, {},
         ["--no-bias-dropout-fusion", "--no-gradient-accumulation-fusion"]),
        ({"preset": "te", "unfused": ["bias_activation"]}, GPT, ["--no-bias-gelu-fusion"]),
        ({"preset": "megatron-2022", "softmax": "half"}, {}, ["--no-masked-softmax-fusion"]),
        ({"preset": "megatron-2022", "softmax": "fp32"}, {},
         ["--no-masked-softmax-fusion", "--attention-softmax-in-fp32"]),
        ("te", {}, []),
    ],
)  # fmt: skip
def test_the_script_says_which(tmp_path: Any, software: Any, model: Any, words: list[str]) -> None:
    parallel = {"tp": 2, "data_parallel": "distributed_optimizer"}
    path = tmp_path / "s.yaml"
    path.write_text(to_scenario_yaml(deep(SMALL, {**model, "software": software, "parallel": parallel})), "utf-8")
    run = export_run(str(path), load_cases(str(path))[0], "megatron")
    script = run.files["launch.sh"]
    switches = [word for word in script.split() if word.endswith("-fusion") and word.startswith("--no-")]
    assert {*switches} == {word for word in words if word.startswith("--no-")}
    assert all(word in script for word in words)
    assert "software=" not in run.back  # the script alone brings them back
