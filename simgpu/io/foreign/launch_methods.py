"""Launch lines of trainings that are not simulated, and of programs whose arguments are not read: refused by name.

huggingface/trl ``trl/scripts``; OpenRLHF/OpenRLHF ``openrlhf/cli``; modelscope/ms-swift ``swift/cli``;
volcengine/verl ``verl/trainer``; facebookresearch/hydra ``hydra/_internal/utils.py`` (get_args_parser).
"""

from __future__ import annotations

import re
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.launch_words import LaunchLine
from simgpu.io.foreign.script_arguments import arguments_mapping

_OF_COOKBOOK: Final = ("--enable_fsdp", "--peft_method", "--batch_size_training")
_BEYOND: Final = re.compile(
    r"((run|train)_)?(dpo|grpo|kto|ppo|rloo|orpo|cpo|gkd|online_dpo|nash_md|xpo)(_\w+)?", re.ASCII
)
_OF_VERL: Final = re.compile(r"(?:.*/)?verl[./]trainer[./].*")
_YAML: Final = (".yaml", ".yml")
_CONFIG_NAME: Final = ("--config-name", "-cn")
_CONFIG_PATH: Final = ("--config-path", "-cp")
"""Options of Hydra: with an underscore, config_name is Transformers' name of a model."""
_ARGUMENTS: Final = "give the run as arguments of Trainer"


def check_method(line: LaunchLine, source: str) -> None:
    """Refuse preference and reinforcement learning, and scripts whose arguments have a form that is not read.

    Parameters
    ----------
    line : LaunchLine
    source : str
        Name of its file for messages.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.launch_words import find_launch_line
    >>> check_method(find_launch_line("torchrun train_sft.py --config_name gpt2", "run.sh"), "run.sh")
    >>> check_method(find_launch_line("deepspeed --module openrlhf.cli.train_dpo --beta 0.1", "run.sh"), "run.sh")
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: run.sh: script = openrlhf.cli.train_dpo: is not simulated: its step is more than ...
    """
    if line.launcher == "megatron" and line.script not in ("sft", "pt"):
        problem = "is ms-swift's Megatron, whose arguments are not read"
        fix = "give the run as Megatron's own arguments"
        raise _refused("script", f"megatron {line.script}", problem, fix, source)
    other = next((word for word in line.arguments if word.partition("=")[0] in _OF_COOKBOOK), None)
    if other is not None:
        problem = "is of llama-cookbook, whose arguments are not read"
        raise ScenarioError([Issue(field=other.partition("=")[0], problem=problem, fix=_ARGUMENTS, file=source)])
    last = line.script.rsplit("/", 1)[-1].removesuffix(".py").rsplit(".", 1)[-1]
    if _BEYOND.fullmatch(last) or (line.launcher == "swift" and line.script == "rlhf"):
        problem = "is not simulated: its step is more than one model's training"
        raise ScenarioError([Issue(field="script", value=line.script, problem=problem, allowed="sft", file=source)])
    if _OF_VERL.fullmatch(line.script):
        raise _refused("script", line.script, "is verl's, whose arguments are not read", _ARGUMENTS, source)
    _check_hydra(line, source)


def _check_hydra(line: LaunchLine, source: str) -> None:
    """Refuse a script of Hydra that takes its run from a file: what stands on the line is only set above it."""
    name, folder = _value(line, _CONFIG_NAME), _value(line, _CONFIG_PATH)
    if name is None or not (folder is not None or name.endswith(_YAML) or _has_overrides(line)):
        return
    file = name if name.endswith(_YAML) else f"{name}.yaml"
    problem = "names a configuration of Hydra, which has the run, and which is not read from a launch line"
    fix = f"give {file} itself, with the key=value words of the line written into it"
    raise _refused("--config-name", name, problem, fix, source)


def _has_overrides(line: LaunchLine) -> bool:
    return any(isinstance(value, dict) for value in arguments_mapping(line.arguments).values())


def _value(line: LaunchLine, names: tuple[str, ...]) -> str | None:
    """Return the value of an option; None without it."""
    for at, word in enumerate(line.arguments):
        option, equals, value = word.partition("=")
        if option in names:
            return value if equals else next(iter(line.arguments[at + 1 :]), None)
    return None


def _refused(field: str, value: str, problem: str, fix: str, source: str) -> ScenarioError:
    return ScenarioError([Issue(field=field, value=value, problem=problem, fix=fix, file=source)])
