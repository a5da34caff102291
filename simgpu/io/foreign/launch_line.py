"""Launch lines: ``torchrun``, ``deepspeed``, ``accelerate launch``, ``python`` and others, alone or in a shell script.

Nothing is run. Options: pytorch/pytorch ``torch/distributed/run.py``; deepspeedai/DeepSpeed
``deepspeed/launcher/runner.py``; huggingface/accelerate ``src/accelerate/commands/launch.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.document import Document
from simgpu.io.foreign.host_list import uneven
from simgpu.io.foreign.key_account import leaves
from simgpu.io.foreign.launch_accelerate import ACCELERATE_FILE, accelerate_options, has_trainer
from simgpu.io.foreign.launch_arguments import OWN_FILE, TRL, file_arguments, launcher_keys, trl_argument
from simgpu.io.foreign.launch_methods import check_method
from simgpu.io.foreign.launch_words import find_launch_line, taken_apart
from simgpu.io.foreign.launcher_keys import COUNTS, LAUNCHER, WRAPPER
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.nccl_environment import idle_variables, nccl_settings
from simgpu.io.foreign.number_formats import LIGHTNING, MIXED
from simgpu.io.foreign.overrides import Overrides, laid_over
from simgpu.io.foreign.ranks import find_ranks
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.script_arguments import arguments_mapping
from simgpu.io.foreign.shell import read_commands
from simgpu.io.foreign.shell_known import check_files
from simgpu.io.foreign.torchtitan_overrides import job_options
from simgpu.io.foreign.trainer import open_fields, trainer_settings
from simgpu.io.foreign.unset_words import is_unset, left_out
from simgpu.io.text_file import read_text

KIND: Final = "launch-line"
PLAIN: Final = "plain_python"
"""Key in ``open`` of a script that Python starts by itself, as one process; its value is `TRAINER`, or empty."""
TRAINER: Final = "trainer"
WITHOUT_TRAINER: Final = "without_trainer"
"""Key in ``open`` of a script that has its own loop."""
_IDLE: Final = (
    "script", *(f"launcher.{name}" for name in LAUNCHER), *(f"wrapper.{name}" for name in WRAPPER),
    "args.finetuning_type", "args.eos_token", "args.pad_token", "args.version", "args.image_aspect_ratio",
    "args.image_folder", "args.image_grid_pinpoints", "args.image_crop_resolution", "args.image_split_resolution",
    "args.freeze_mm_mlp_adapter", "args.mm_projector_type", "args.mm_vision_select_layer",
    "args.mm_vision_select_feature", "args.mm_use_im_start_end", "args.mm_use_im_patch_token", "args.mm_projector_lr",
    "args.mm_patch_merge_type", "args.mm_vision_tower_lr", "args.mm_tunable_parts", "args.mm_spatial_pool_mode",
    "args.mm_resampler_type", "args.pretrain_mm_mlp_adapter", "args.tune_mm_mlp_adapter",
    "args.group_by_modality_length",
)  # fmt: skip
_NO_SCRIPTS: Final = (".json", ".yaml", ".yml", ".toml")
_MODELS: Final = ("args.model_name_or_path", "args.model_name", "args.pretrained_model_name_or_path", "args.model_id")
_NAME: Final = re.compile(r"\$\{?([A-Za-z_]\w*)")


class _LineLedger(Ledger):
    """Of a launch line, on which a boolean argument is set by its name, and further arguments may follow."""

    loop: str = ""
    variables: Mapping[str, str] = MappingProxyType({})

    def _known(self, key: str) -> Any:
        names = _NAME.findall(str(self.raw(key)))
        for name in names:
            if re.search(rf"\b{name}\b", self.loop):
                problem = f"differs between the turns of a loop of the script ({self.loop}), of which one is simulated"
                self.refuse(key, problem, fix=f"write the value of the turn that is meant for ${name}")
            if self.variables.get(name) == f"${name}":
                problem = f"is set by a branch of the script or by a program, so that only a run tells ${name}"
                self.refuse(key, problem, fix="write the value that the job uses")
        return super()._known(key)

    def text(self, key: str) -> str | None:
        value = self.raw(key)
        if key in _MODELS and isinstance(value, str) and is_unset(value):  # for --model to say
            self.get(key)
            self.note(left_out(value))
            return None
        return super().text(key)

    def flag(self, key: str) -> bool | None:
        value = self.raw(key)
        if key.startswith("args.") and isinstance(value, str) and is_unset(value):
            self.get(key)
            self.note(left_out(value))
            return True
        return super().flag(key)

    def integer(self, key: str, *, least: int = 0) -> int | None:
        if self.raw(key) is True:
            problem, fix = "has no value behind it", "write the number that the job uses"
            name = f"--{key.partition('.')[2]}"
            raise ScenarioError([Issue(field=name, problem=problem, fix=fix, file=self.source)])
        return super().integer(key, least=least)


def recognise(path: Path, text: str) -> bool:
    """Return whether a text has a launch line.

    Examples
    --------
    >>> recognise(Path("run.sh"), "torchrun --nproc_per_node 8 train.py"), recognise(Path("x.sh"), "ls")
    (True, False)
    """
    if path.suffix.lower() in _NO_SCRIPTS:
        return False
    return any(taken_apart(command) is not None for command in read_commands(text, path.parent))


def recognise_program(path: Path, text: str) -> bool:
    """Return whether a text starts a program that takes a configuration file of its own: never Megatron's arguments.

    Examples
    --------
    >>> recognise_program(Path("x.sh"), "axolotl train ax.yml --micro-batch-size 4")
    True
    >>> recognise_program(Path("x.sh"), "torchrun pretrain_gpt.py --micro-batch-size 4")
    False
    """
    if path.suffix.lower() in _NO_SCRIPTS:
        return False
    lines = [line for command in read_commands(text, path.parent) if (line := taken_apart(command)) is not None]
    found = [file_arguments(line, path.name) for line in lines]
    return any(line.launcher == "megatron" for line in lines) or any(
        above is not None and above[0].key != OWN_FILE for above in found
    )


def read_launch_line(path: Path, *, over: Sequence[Overrides] = (), own_arguments: bool = True) -> Reading:
    r"""Read the launch line of a shell script, and the Trainer arguments in it.

    Parameters
    ----------
    path : Path
    over : sequence of Overrides
        What stands above the arguments.
    own_arguments : bool
        Whether the line's arguments are read here, and not as keys of the file that it names.

    Returns
    -------
    Reading
        Arguments that belong to a file are in ``over``.

    Raises
    ------
    ScenarioError
        Without a launch line, with several, or where a value would have to be run to be known.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.sh"
    ...     _ = path.write_text("N=2\ntorchrun --nnodes=$N --nproc_per_node=8 train.py --bf16 True "
    ...                         "--per_device_train_batch_size 4")
    ...     reading = read_launch_line(path)
    >>> reading.gpus, reading.settings["training.micro_batch_size"], reading.settings["training.precision"]
    (16, 4, 'bf16')
    """
    line = find_launch_line(read_text(path, str(path)), path.name, path.parent)
    check_method(line, path.name)
    ranks = find_ranks(line, path.name, path.parent)
    arguments = Document(source=path.name, data=arguments_mapping(line.arguments) if own_arguments else {})
    data: dict[str, Any] = {
        "launcher": dict(line.options),
        "wrapper": dict(line.wrapper),
        "script": line.script,
        "args": laid_over(arguments, *over).data,
        "env": dict(line.environment),
    }
    ledger = _LineLedger(Document(source=path.name, data=data))
    ledger.written, ledger.loop, ledger.variables = line.written, line.loop, line.variables
    for note in line.notes:
        ledger.note(note)
    job = job_options(line.script, data["args"])
    settings: dict[str, Any] = trainer_settings(ledger, "args.") if job is None else {}
    if line.launcher == "accelerate":
        found = accelerate_options(ledger, line, settings, gpus=ranks.gpus)
        settings |= {name: value for name, value in found.items() if value is not None}
    elif line.launcher == "torchrun" and (named := ledger.text("args.job.config_file")) is not None:  # torchtitan
        ledger.open["job_config_file"] = named
    _tower(ledger)
    settings |= _environment(ledger)
    if line.launcher != "accelerate" and settings.get("training.precision") is None:  # its launcher sets it anew
        settings["training.precision"] = ledger.choice("env.ACCELERATE_MIXED_PRECISION", MIXED)
    _own_precision(ledger, settings)
    gpus = ranks.seen
    settings["cluster.nodes"] = ranks.nodes
    for key in ranks.used:
        ledger.get(key)
    ledger.open |= uneven(ranks.shares)
    if ranks.open is not None:
        ledger.open["cluster.gpus"] = ranks.open
        if ACCELERATE_FILE in ledger.open:
            ledger.note(f"{ranks.open} is not in the script: what {ledger.open[ACCELERATE_FILE]} says of it is taken")
    if not has_trainer(ledger, line):
        ledger.open[WITHOUT_TRAINER] = line.script
    if not ranks.processes:
        ledger.open[PLAIN] = TRAINER if has_trainer(ledger, line) else ""
    if line.launcher != "python":  # whose own options count
        ledger.idle(*(f"wrapper.{name}" for name in COUNTS))
    ledger.idle(*_IDLE, *(f"env.{name}" for name in idle_variables(line.environment)), "env.CUDA_VISIBLE_DEVICES")
    if job is not None:
        for key in leaves({name: data["args"][name] for name in job}):
            ledger.get(f"args.{key}")
        for name in ("NGPU", "CONFIG_FILE") if line.script.endswith(".sh") else ():
            ledger.get(f"env.{name}")
        return replace(ledger.reading(KIND, settings, gpus=gpus), options=job)
    above = file_arguments(line, path.name)
    told = None if line.script.endswith(TRL) else trl_argument(arguments_mapping(line.arguments))
    if above is not None and above[0].beneath and told:
        ledger.note(f"{line.script} takes {told}, an argument of TRL: it is read with TRL's defaults")
    if above is not None and above[1]:
        ledger.open[above[0].key] = above[1]
        for name in ("config", "config_file", "c"):
            ledger.get(f"args.{name}")
    left = () if settings.get("training.precision") or not own_arguments else open_fields(ledger, "args.")
    check_files(ledger.open.values(), line.written, line.changed, source=path.name)
    reading = ledger.reading(KIND, settings, gpus=gpus, open_fields=left)
    launched = launcher_keys(line.options) if ACCELERATE_FILE in ledger.open else {}
    over_files = [Overrides(source=path.name, values=launched, key=ACCELERATE_FILE)] if launched else []
    if above is not None and own_arguments:
        over_files.append(above[0])
    return replace(reading, over=tuple(over_files))


def _own_precision(ledger: Ledger, settings: dict[str, Any]) -> None:
    """Take the precision of a script's own argument: a word of Lightning's, or what the script gives Accelerator."""
    word = str(ledger.raw("args.precision")).lower()
    if settings.get("training.precision") is None and word in LIGHTNING:
        ledger.get("args.precision")
        settings["training.precision"] = LIGHTNING[word][0]
    mixed = str(ledger.raw("args.mixed_precision")).lower()
    if mixed in MIXED:  # Accelerator's own argument goes before the launcher's
        settings["training.precision"] = ledger.choice("args.mixed_precision", MIXED)


def _tower(ledger: Ledger) -> None:
    """Say what of LLaVA's training is not simulated; its arguments stand in many scripts derived from it."""
    if ledger.flag("args.tune_mm_mlp_adapter"):
        ledger.refuse("args.tune_mm_mlp_adapter", "is not simulated: only what joins image and language is trained")
    if ledger.text("args.vision_tower"):
        ledger.note("vision_tower is left out: the language model alone is simulated, on text")


def _environment(ledger: Ledger) -> dict[str, Any]:
    settings = nccl_settings(ledger, "env")
    if ledger.flag("env.CUDA_LAUNCH_BLOCKING"):
        settings["software"] = {"cuda_launch_blocking": True}
    return settings
