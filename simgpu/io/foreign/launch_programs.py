"""Programs that put a launcher in front of their own script: lines of Axolotl, TRL, Oumi, LitGPT as what they start.

axolotl-ai-cloud/axolotl ``src/axolotl/cli/main.py`` and ``cli/utils/train.py``; huggingface/trl
``trl/cli/commands/training.py``, ``trl/cli/accelerate_config.py`` and ``trl/accelerate_configs/*.yaml``; oumi-ai/oumi
``src/oumi/cli/distributed_run.py``; Lightning-AI/litgpt ``litgpt/__main__.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from simgpu.io.foreign.launcher_keys import LAUNCHER

_LAUNCHERS: Final = {"accelerate": ["accelerate", "launch"], "torchrun": ["torchrun"], "python": ["python"]}
_AXOLOTL_OWN: Final = ("main_process_port", "num_processes")
"""Options of Axolotl that it hands to Accelerate's launcher."""
_MODULES: Final = {"oumi": ("train",), "litgpt": ("finetune", "pretrain")}
"""What trains, of programs that start themselves."""
_SCRIPTS: Final = ("sft", "dpo", "grpo", "kto", "reward", "rloo", "distillation")
_ACCELERATE: Final = (
    *LAUNCHER, "mixed_precision", "config_file", "zero_stage", "offload_optimizer_device", "offload_param_device",
    "deepspeed_config_file", "dynamo_backend",
)  # fmt: skip
_OF_TRL: Final = ("gradient_accumulation_steps", "debug", "gradient_clipping", "log_dir", "fsdp_config")
"""Names that TRL takes for its own, though Accelerate has them too."""
_EIGHT: Final = ["--num_machines", "1", "--num_processes", "8", "--mixed_precision", "bf16"]
_ZERO: Final = ["--use_deepspeed", "--offload_optimizer_device", "none", "--offload_param_device", "none"]
_FSDP: Final = ["--use_fsdp", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"]
_CONFIGS: Final = {
    "single_gpu": [*_EIGHT[:2], "--num_processes", "1", *_EIGHT[4:]],
    "multi_gpu": ["--multi_gpu", *_EIGHT],
    "zero1": [*_ZERO, "--zero_stage", "1", *_EIGHT],
    "zero2": [*_ZERO, "--zero_stage", "2", *_EIGHT],
    "zero3": [*_ZERO, "--zero_stage", "3", *_EIGHT],
    "fsdp1": [*_FSDP, "--fsdp_version", "1", "--fsdp_sharding_strategy", "FULL_SHARD", "--fsdp_backward_prefetch",
              "BACKWARD_PRE", "--fsdp_forward_prefetch", "true", *_EIGHT],
    "fsdp2": [*_FSDP, "--fsdp_version", "2", "--fsdp_reshard_after_forward", "true", *_EIGHT],
}  # fmt: skip
"""What the configurations of Accelerate that come with TRL say, as options; those on the line go before them."""


def started(words: Sequence[str]) -> list[str]:
    """Return the command that a program starts, where it is one of these; any other command as it is.

    Parameters
    ----------
    words : sequence of str

    Returns
    -------
    list of str

    Examples
    --------
    >>> " ".join(started("axolotl train a.yml --lora-r 8 --launcher torchrun -- --nproc_per_node=8".split()))
    'torchrun --nproc_per_node=8 -m axolotl.cli.train a.yml --lora-r 8'
    >>> " ".join(started("trl sft --lora_r 8 --num_processes 4".split()))
    'accelerate launch --num_processes 4 trl/scripts/sft.py --lora_r 8'
    """
    words = list(words)
    program = words[0].rsplit("/", 1)[-1] if words else ""
    if program == "axolotl" and words[1:2] == ["train"]:
        return _axolotl(words[2:])
    if program == "trl" and words[1:2] and words[1] in _SCRIPTS:
        return _trl(words[1], words[2:])
    if program == "oumi" and words[1:3] == ["distributed", "torchrun"]:
        return ["torchrun", "--nproc_per_node", "gpu", *words[3:]]
    if program == "oumi" and words[1:2] == ["distributed"] and words[2:3]:
        return words[2:]
    if program in _MODULES and words[1:2] and words[1].startswith(_MODULES[program]):
        return ["python", "-m", program, *words[1:]]
    return words


def _axolotl(words: list[str]) -> list[str]:
    end = words.index("--") if "--" in words else len(words)
    words, options = words[:end], words[end + 1 :]
    chosen, launcher = "accelerate", list[str]()
    rest: list[str] = []
    for option in _options(words):
        name = _name(option[0])
        if name == "launcher":
            chosen = _value(option)
        elif name in _AXOLOTL_OWN:
            launcher += option
        elif name and len(option) > 2:  # click gives an option one value: more stand by themselves
            rest = [*option[2:], *rest, *option[:2]]
        else:
            rest += option
    if chosen == "python":
        return ["python", "-m", "axolotl.cli.train", *rest]
    return [*_LAUNCHERS.get(chosen, _LAUNCHERS["accelerate"]), *launcher, *options, "-m", "axolotl.cli.train", *rest]


def _trl(script: str, words: Sequence[str]) -> list[str]:
    launcher: list[str] = []
    rest: list[str] = []
    for option in _options(words):
        name = _name(option[0])
        if name == "accelerate_config":
            named = _value(option)
            launcher = [*_CONFIGS.get(named, ["--config_file", named]), *launcher]
        elif name not in _OF_TRL and (name in _ACCELERATE or name.startswith(("fsdp_", "parallelism_config_"))):
            launcher += option
        else:
            rest += option
    return ["accelerate", "launch", *launcher, f"trl/scripts/{script}.py", *rest]


def _options(words: Sequence[str]) -> list[list[str]]:
    """Return words by the option that they stand behind; those before the first one each by itself."""
    found: list[list[str]] = []
    for word in words:
        if re.match(r"--?[A-Za-z]", word) or not found or not found[-1][0].startswith("-"):
            found.append([word])
        else:
            found[-1].append(word)
    return found


def _name(word: str) -> str:
    return word.lstrip("-").partition("=")[0].replace("-", "_") if word.startswith("-") else ""


def _value(option: Sequence[str]) -> str:
    return option[0].partition("=")[2] or next(iter(option[1:]), "")
