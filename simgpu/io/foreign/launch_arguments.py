"""Arguments of launch lines that are keys of a configuration file: of the one that the line names, or of none.

hiyouga/LLaMA-Factory ``src/llamafactory/hparams/parser.py`` (read_args); axolotl-ai-cloud/axolotl
``src/axolotl/cli/{main,train}.py``; meta-pytorch/torchtune ``torchtune/_cli/run.py``; huggingface/trl
``trl/scripts/utils.py`` (TrlParser); huggingface/transformers ``src/transformers/hf_argparser.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from simgpu.io.foreign.launch_words import LaunchLine
from simgpu.io.foreign.overrides import Overrides, typed
from simgpu.io.foreign.script_arguments import arguments_mapping

OWN_FILE: Final = "script_config_file"
"""Key in ``open`` of a file of the script's own: one of no kind that is read may be of any form."""
PROGRAM_FILE: Final = "config_file"
"""Key in ``open`` of the file of a program that is known."""
_YAML: Final = (".yaml", ".yml")
_NAMES: Final = ("config", "config_file", "c")
"""Options that name a script's configuration: TRL's, torchtune's and picotron's; nanotron's; Oumi's."""
_AXOLOTL: Final = ("axolotl.cli.train", "axolotl/cli/train.py", "scripts/finetune.py")
_SWIFT: Final = ("swift/cli/sft.py", "swift/cli/pt.py", "swift.cli.sft", "swift.cli.pt")
TRL: Final = ("trl/scripts/sft.py", "examples/scripts/sft.py")
"""Scripts of TRL."""
_OF_TRL: Final = ("use_peft", "packing_strategy", "assistant_only_loss", "completion_only_loss")
_LITGPT_LORA: Final = ("finetune", "finetune_lora")
TRL_DEFAULTS: Final = (
    (("gradient_checkpointing", "activation_checkpointing"), True), (("bf16", "fp16"), True),
    (("max_length", "max_seq_length"), 1024), (("use_peft",), False),
)  # fmt: skip
"""What arguments of TRL are where nobody gives them: huggingface/trl trl/trainer/{base,sft,model}_config.py."""
_BLOCKS: Final = {
    "fsdp_config": "fsdp_", "parallelism_config": "parallelism_config_", "megatron_lm_config": "megatron_lm_",
}  # fmt: skip
"""Blocks of Accelerate's configuration, and how the names of the launcher's options for them begin."""
_TYPES: Final = {"use_fsdp": "FSDP", "use_megatron_lm": "MEGATRON_LM", "multi_gpu": "MULTI_GPU"}
_SIZES: Final = ("num_processes", "num_machines")
_FIRST_FACTORY: Final = "train_bash.py"
"""Script of LLaMA-Factory up to version 0.7, whose cutoff_len was 1024 (``src/llmtuner/hparams/data_args.py``)."""
_LLAMAFACTORY: Final = ("src/train.py", "src/train_bash.py", "llamafactory/launcher.py")


def file_arguments(line: LaunchLine, source: str) -> tuple[Overrides, str] | None:
    """Return what a line sets above a configuration file, and the name of this file.

    Parameters
    ----------
    line : LaunchLine
    source : str
        Name of the line's file.

    Returns
    -------
    (Overrides, str) or None
        Without a name where all that the program takes stands on the line; None for any other line.

    Examples
    --------
    >>> from simgpu.io.foreign.launch_words import find_launch_line
    >>> texts = ["llamafactory-cli train sft.yaml lora_rank=64 bf16=true", "torchrun sft.py --config a.yml --lora_r 8",
    ...          "accelerate launch -m axolotl.cli.train ax.yml --no-bf16", "torchrun train.py --bf16"]
    >>> for text in texts:
    ...     found = file_arguments(find_launch_line(text, "run.sh"), "run.sh")
    ...     print(found and (found[1], dict(found[0].values)))
    ('sft.yaml', {'lora_rank': '64', 'bf16': True})
    ('a.yml', {'lora_r': '8'})
    ('ax.yml', {'bf16': False})
    None
    """
    first = next(iter(line.arguments), "")
    arguments = arguments_mapping(line.arguments)
    if line.launcher == "llamafactory-cli" or line.script.endswith(_LLAMAFACTORY):
        if line.script.endswith((*_YAML, ".json")):
            return _above(source, arguments, key=PROGRAM_FILE), line.script
        if first.endswith((*_YAML, ".json")):
            return _above(source, arguments, key=PROGRAM_FILE), first
        if line.launcher == "llamafactory-cli" or {"finetuning_type", "stage"} & arguments.keys():
            beneath = ((("cutoff_len",), 1024),) if line.script.endswith(_FIRST_FACTORY) else ()
            return replace(_above(source, arguments, kind="llamafactory"), beneath=beneath), ""
    swift = line.launcher == "swift" or line.script.endswith(_SWIFT)
    if line.launcher == "megatron" and not first.endswith((*_YAML, ".json")):
        return _above(source, arguments, kind="megatron-swift"), ""
    swift = swift or line.launcher == "megatron"
    if swift and first.endswith((*_YAML, ".json")):
        return _above(source, arguments, key=PROGRAM_FILE), first
    if swift:
        return _above(source, arguments, kind="ms-swift"), ""
    if line.script.endswith(_AXOLOTL) and first.endswith(_YAML):
        return _above(source, _switched(arguments), key=PROGRAM_FILE), first
    named = next((str(value) for name in _NAMES if isinstance(value := arguments.get(name), str)), "")
    rest = {name: value for name, value in arguments.items() if name not in _NAMES}
    if line.script == "oumi" and first == "train" and named:
        return _above(source, rest, key=PROGRAM_FILE), named
    if line.script == "litgpt" and named:
        folder = next((word for word in line.arguments[1:2] if not word.startswith("-")), None)
        return _above(source, {**({"checkpoint_dir": folder} if folder else {}), **rest}, key=PROGRAM_FILE), named
    if line.script == "litgpt":
        return _above(source, _litgpt(line.arguments, rest), kind="litgpt"), ""
    if line.script.endswith(TRL):
        over = _above(source, _switched(rest), key=PROGRAM_FILE if named else "", kind="" if named else "trainer")
        return replace(over, beneath=TRL_DEFAULTS), named
    if line.script.endswith(".py") and trl_argument(arguments) and not named:
        return replace(_above(source, _switched(rest), kind="trainer"), beneath=TRL_DEFAULTS), ""
    if line.launcher == "tune" and named:
        return _above(source, rest, key=PROGRAM_FILE), named
    if not line.script.endswith(".py"):
        return None
    alone = len(line.arguments) == 1 and first.endswith(".json")  # of HfArgumentParser
    if alone or (first.endswith(_YAML) and not first.startswith("-") and "=" not in first):
        return _above(source, arguments, key=OWN_FILE), first
    return (_above(source, rest, key=OWN_FILE), named) if named.endswith((*_YAML, ".json")) else None


def trl_argument(arguments: Mapping[str, Any]) -> str | None:
    """Return an argument that only TRL's own configurations have: a script with it has their defaults too.

    Examples
    --------
    >>> trl_argument({"use_peft": True, "bf16": True}), trl_argument({"use_lora": True})
    ('use_peft', None)
    """
    return next((name for name in _OF_TRL if name in arguments), None)


def _litgpt(words: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return LitGPT's arguments with the model that stands behind the command, and the default of its adapters."""
    command = next(iter(words), "")
    named = next((word for word in words[1:2] if not word.startswith("-")), None)
    key = "model_name" if command.startswith("pretrain") else "checkpoint_dir"
    own: dict[str, Any] = {} if named is None else {key: named}
    if command in _LITGPT_LORA:
        own["lora_r"] = 8
    return {**own, **arguments}


def launcher_keys(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what options of ``accelerate launch`` say as keys of its configuration file, above which they stand.

    What the line has is not taken from the file: huggingface/accelerate src/accelerate/commands/launch.py,
    _validate_launch_command (``nondefault``). Options that every reading of a line has are left out here.

    Parameters
    ----------
    options : mapping
        Dashes as underscores.

    Returns
    -------
    dict
        Nested as the file is.

    Examples
    --------
    >>> launcher_keys({"num_processes": "8", "use_fsdp": True, "fsdp_offload_params": "true"})
    {'num_processes': '8', 'distributed_type': 'FSDP', 'fsdp_config': {'fsdp_offload_params': True}}
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        block = next((block for block in _BLOCKS if name.startswith(_BLOCKS[block])), None)
        if name in _TYPES and value is True:
            found["distributed_type"] = _TYPES[name]
        elif name in _SIZES and str(value).isdecimal():
            found[name] = value
        elif block is not None:
            found.setdefault(block, {})[name] = typed(value)
    return found


def _above(source: str, arguments: Mapping[str, Any], *, key: str = "", kind: str = "") -> Overrides:
    return Overrides(source=source, values=typed(arguments), key=key, kind=kind)


def _switched(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with ``--no-bf16`` as click takes it, and HfArgumentParser what is on by default."""
    off = {name for name, value in arguments.items() if value is True and name.startswith("no_")} - {"no_cuda"}
    kept = {name: value for name, value in arguments.items() if name not in off}
    return {**kept, **{name.removeprefix("no_"): False for name in off}}
