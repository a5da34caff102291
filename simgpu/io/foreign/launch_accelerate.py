"""What ``accelerate launch`` says by its options beside the number of ranks.

huggingface/accelerate ``src/accelerate/commands/launch.py`` and ``src/accelerate/utils/launch.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simgpu.io.foreign.accelerate import megatron_plugin, parallel_axes
from simgpu.io.foreign.fsdp_options import read_fsdp
from simgpu.io.foreign.launch_arguments import file_arguments, launcher_keys
from simgpu.io.foreign.launch_words import LaunchLine
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.number_formats import MIXED

ACCELERATE_FILE: Final = "accelerate_config_file"
"""Key in ``open`` of Accelerate's configuration."""
_SHARDING: Final = ("use_fsdp", "use_megatron_lm", "use_deepspeed")
_WITHOUT_TRAINER: Final = ("with_tracking", "num_warmup_steps", "checkpointing_steps")
"""Arguments of huggingface/transformers examples/pytorch/*_no_trainer.py, which TrainingArguments does not have."""

UNSTAGED: Final = "deepspeed_without_stage"
"""Among what is left open: DeepSpeed is asked for on the line, and its stage is that of a file beside, if any."""


def accelerate_options(ledger: Ledger, line: LaunchLine, own: Mapping[str, Any], *, gpus: int | None) -> dict[str, Any]:
    """Read the options.

    Parameters
    ----------
    ledger : Ledger
        With the options under ``launcher`` and the script's arguments under ``args``.
    line : LaunchLine
    own : mapping
        What the script's arguments say.
    gpus : int or None
        Processes of the line.

    Returns
    -------
    dict
        Scenario fields; the files that are named are in the ledger's ``open``.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> from simgpu.io.foreign.launch_words import find_launch_line
    >>> line = find_launch_line("accelerate launch --mixed_precision bf16 --multi_gpu t.py", "run.sh")
    >>> ledger = Ledger(Document(source="run.sh", data={"launcher": dict(line.options), "args": {}}))
    >>> found = accelerate_options(ledger, line, {}, gpus=8)
    >>> found["training.precision"], found["parallel.data_parallel"]
    ('bf16', 'ddp')
    """
    settings: dict[str, Any] = {}
    if ledger.flag("launcher.cpu"):
        ledger.refuse("launcher.cpu", "asks for a run without GPUs", fix="leave it out")
    settings["training.precision"] = ledger.choice("launcher.mixed_precision", MIXED)
    settings["training.gradient_accumulation"] = ledger.integer("launcher.gradient_accumulation_steps", least=1)
    _contradictions(ledger, line, settings, own)
    for name in (ACCELERATE_FILE, "deepspeed_config_file"):
        named = ledger.text(f"launcher.{name.removeprefix('accelerate_')}")
        if named is not None:
            ledger.open[name] = named
    stage = ledger.integer("launcher.zero_stage")
    if stage is not None:
        settings["parallel.data_parallel"] = f"zero{stage}" if stage else "ddp"
    elif _without_stage(ledger) and _configured(line, ledger.source):
        ledger.open["parallel.data_parallel"] = "--use_deepspeed without --zero_stage, where Accelerate takes zero2"
    elif _without_stage(ledger):
        ledger.open[UNSTAGED] = "--zero_stage"
    for name in ("offload_optimizer", "offload_param"):
        device = ledger.text(f"launcher.{name}_device")
        if device and device.lower() != "none":
            settings[f"zero.{name}"] = {"device": device.lower()}
    if ACCELERATE_FILE in ledger.open:  # sharding options are keys of the file
        for key in line.options:
            if launcher_keys({key: True}):
                ledger.get(f"launcher.{key}")
    elif ledger.flag("launcher.use_fsdp"):
        settings |= read_fsdp(ledger, "launcher", launched=True)
    elif ledger.flag("launcher.use_megatron_lm"):
        settings |= megatron_plugin(ledger, "launcher", settings["training.precision"])
    others = ("parallel.data_parallel" in settings, *(line.options.get(name) for name in _SHARDING))
    if ledger.flag("launcher.multi_gpu") and not any(others):
        settings["parallel.data_parallel"] = "ddp"
    if ledger.flag("launcher.use_parallelism_config") and ACCELERATE_FILE not in ledger.open:
        kind = "fsdp" if ledger.flag("launcher.use_fsdp") else "multi_gpu"
        settings |= parallel_axes(ledger, "launcher", kind, processes=gpus)
    if (ledger.text("launcher.dynamo_backend") or "no").lower() not in ("no", "false"):
        kernels = own["software"].get("optimizer") if isinstance(own.get("software"), dict) else None
        settings["software"] = {"preset": "compile", "optimizer": kernels} if kernels else "compile"
    return settings


def _without_stage(ledger: Ledger) -> bool:
    """Return whether DeepSpeed is asked for, and no file says its stage: DeepSpeedPlugin has 2 then.

    huggingface/accelerate src/accelerate/utils/dataclasses.py (ACCELERATE_DEEPSPEED_ZERO_STAGE).
    """
    return bool(ledger.flag("launcher.use_deepspeed")) and not {ACCELERATE_FILE, "deepspeed_config_file"} & {
        *ledger.open
    }


def _configured(line: LaunchLine, source: str) -> bool:
    """Return whether the script is configured by what is read as a file, which may name DeepSpeed's."""
    above = file_arguments(line, source)
    return above is not None and bool(above[1] or "deepspeed" in above[0].values)


def _contradictions(ledger: Ledger, line: LaunchLine, launched: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Take Trainer's own arguments before the launcher's, and say so.

    TrainingArguments.__post_init__ writes its precision over ACCELERATE_MIXED_PRECISION, and Trainer gives Accelerator
    its own steps; without Trainer, Accelerator takes the launcher's.
    """
    trainer = has_trainer(ledger, line)
    for field, option in (
        ("training.precision", "mixed_precision"),
        ("training.gradient_accumulation", "gradient_accumulation_steps"),
    ):
        ours, theirs = own.get(field), launched[field]
        if ours in (None, "tf32", theirs) or theirs is None:
            continue
        holds = ours if trainer else theirs
        launched[field] = holds
        ledger.note(
            f"--{option} {theirs} of the launcher contradicts the script's own arguments ({ours}): {holds} holds"
        )


def has_trainer(ledger: Ledger, line: LaunchLine) -> bool:
    """Return whether Transformers' Trainer runs the script's loop.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> from simgpu.io.foreign.launch_words import find_launch_line
    >>> line = find_launch_line("accelerate launch run_clm_no_trainer.py", "run.sh")
    >>> has_trainer(Ledger(Document(source="run.sh", data={"args": {}})), line)
    False
    """
    return "no_trainer" not in line.script and not any(ledger.raw(f"args.{name}") for name in _WITHOUT_TRAINER)
