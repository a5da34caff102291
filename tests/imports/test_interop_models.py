"""Models of Transformers, built without weights: as many parameters as are read from their ``config.json``."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import pytest

from simgpu.workload.huggingface import model_from_huggingface
from simgpu.workload.huggingface_families import LLAMA_LINE

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)
OTHERS = ("bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "mpt", "opt", "phi")
LEFT_OUT = {
    "deepseek_v32": 0.0013, "glm_moe_dsa": 0.001,  # their indexers
    "gpt_oss": 0.0004,  # biases of experts
    "olmo": 0.0001, "mpt": 0.0001,  # norms without weights, or without biases
}  # fmt: skip
"""Shares of the parameters that are not read; others have all but the head's bias or a norm's, at most 5e-5."""
NOT_BUILT = ("glm4_moe",)  # its class's own default has heads of another width than every file


@pytest.mark.parametrize("family", sorted({*LLAMA_LINE, *OTHERS} - {*NOT_BUILT}))
def test_parameters_are_those_of_transformers(family: str) -> None:
    import torch
    import transformers

    config: Any = transformers.CONFIG_MAPPING._mapping.get(family) and transformers.CONFIG_MAPPING[family]()
    if config is None:
        pytest.skip(f"{family} is no part of Transformers {transformers.__version__}")
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        try:
            built = transformers.AutoModelForCausalLM.from_config(config)
        except (TypeError, AttributeError, ValueError) as error:
            pytest.skip(f"Transformers cannot build its own default: {str(error)[:80]}")
    fields = config.to_dict()
    fields.pop("architectures", None)
    if fields.get("num_experts_per_tok", 1) is None:
        fields["num_experts_per_tok"] = 1  # no weights depend on it
    count = sum(weight.numel() for weight in built.parameters())
    assert model_from_huggingface(fields, name=family).parameters == pytest.approx(
        count, rel=LEFT_OUT.get(family, 5e-5)
    )
