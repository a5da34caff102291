"""What to say of a file that no reader recognises."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError

LABELS: Final = {
    "launch-line": "launch lines and shell scripts",
    "host-list": "host files",
    "hf-config": "config.json of Transformers",
    "deepspeed": "DeepSpeed's JSON",
    "accelerate": "Accelerate's YAML",
    "fsdp-config": "FSDP options",
    "trainer": "arguments of Transformers' Trainer and TRL",
    "megatron-args": "Megatron-LM's arguments",
    "megatron-runs": "lists of Megatron-LM's runs",
    "megatron-yaml": "Megatron-LM's arguments as YAML",
    "megatron-yaml-cfg": "files of Megatron-LM's --yaml-cfg",
    "nemo": "NeMo's YAML",
    "gptneox": "GPT-NeoX's YAML",
    "torchtitan": "torchtitan's TOML",
    "nanotron": "nanotron's YAML",
    "picotron": "picotron's JSON",
    "litgpt": "LitGPT's YAML",
    "litgpt-model": "LitGPT's model_config.yaml",
    "litgpt-models": "LitGPT's list of models",
    "torchtune": "torchtune's YAML",
    "olmo": "OLMo's YAML",
    "llm-foundry": "llm-foundry's YAML",
    "oumi": "Oumi's YAML",
    "axolotl": "Axolotl's YAML",
    "ms-swift": "ms-swift's YAML",
    "llamafactory": "LLaMA-Factory's YAML",
    "network-log": "logs of NCCL and nccl-tests",
}
"""What people call the kinds."""

_STRANGERS: Final[Mapping[str, tuple[frozenset[str], str]]] = {  # keys that tell, and what is wrong
    "a SimGPU scenario already": (frozenset({"model", "cluster"}), "run it with simgpu run"),
    "verl's, whose step is more than one model's training": (
        frozenset({"actor_rollout_ref"}),
        "give one model's training",
    ),
}
_SHOWN: Final = 6  # keys


def unknown_kind(source: str, data: Mapping[str, Any] | None) -> ScenarioError:
    """Say that a file is of no known kind, by its keys where it has any.

    Parameters
    ----------
    source : str
        Its name.
    data : mapping or None
        Its content, where it has keys.

    Returns
    -------
    ScenarioError

    Examples
    --------
    >>> print(str(unknown_kind("x.yaml", {"model": "gpt2", "cluster": {}})))
    x.yaml: is a SimGPU scenario already; fix: run it with simgpu run
    >>> print(str(unknown_kind("x.yaml", {"spam": 1, "eggs": 2})).split(";")[0])
    x.yaml: is no configuration of a known kind: its keys are spam, eggs
    """
    keys = list(data or ())
    for name, (telling, fix) in _STRANGERS.items():
        if telling <= set(keys):
            return ScenarioError([Issue(field="", problem=f"is {name}", fix=fix, file=source)])
    shown = ", ".join(str(key) for key in islice(keys, _SHOWN))
    more = ", ..." if len(keys) > _SHOWN else ""
    problem = "is no configuration of a known kind" + (f": its keys are {shown}{more}" if shown else "")
    return ScenarioError([Issue(field="", problem=problem, allowed=", ".join(LABELS.values()), file=source)])
