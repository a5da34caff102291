"""Arguments of Hugging Face Transformers' Trainer and of what is built on it: TRL, FastChat, run_clm, LLaMA-Factory.

Names and defaults: huggingface/transformers ``src/transformers/training_args.py`` and ``src/transformers/trainer.py``;
huggingface/trl ``trl/trainer/sft_config.py``, ``trl/trainer/model_config.py``. Memory and time depend on few of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.accelerator_config import accelerator_config
from simgpu.io.foreign.adapters import lora
from simgpu.io.foreign.config_overrides import check_overrides
from simgpu.io.foreign.deepspeed_match import DEFAULTS, MICRO, STEPS, trainer_values
from simgpu.io.foreign.document import mapping_of
from simgpu.io.foreign.fsdp_options import asked_fsdp
from simgpu.io.foreign.launch_arguments import TRL_DEFAULTS, trl_argument
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.number_formats import FORMATS
from simgpu.io.foreign.overrides import Overrides, laid_over, overridden
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.trainer_kernels import kernels
from simgpu.io.foreign.trainer_keys import IDLE, PRICED, SEVERAL_MODELS
from simgpu.io.foreign.trainer_machines import check_machines
from simgpu.io.foreign.trainer_recompute import recomputed
from simgpu.io.foreign.trl import check_packed, check_trl

KIND: Final = "trainer"
SEQUENCES: Final = (
    "model_max_length", "max_seq_length", "max_seq_len", "max_length", "cutoff_len", "block_size", "seq_length",
    "sequence_len",
)  # fmt: skip
_MODELS: Final = ("model_name_or_path", "model_name", "pretrained_model_name_or_path", "model_id", "config_name")
_WORDS: Final = ("true", "false", "none")
"""Values of --deepspeed that name no file: DeepSpeed's own is a switch (deepspeed/__init__.py)."""
_OFFLOADED: Final = {"offload_optimizer": 1, "offload_param": 3}
"""Least stage of ZeRO that keeps each on the CPU."""


def recognise(path: Path, text: str) -> bool:
    """Return whether a file holds Trainer arguments.

    Examples
    --------
    >>> recognise(Path("args.json"), '{"per_device_train_batch_size": 4, "output_dir": "x"}')
    True
    """
    data = mapping_of(text)
    return data is not None and any(name in data for name in ("per_device_train_batch_size", "gradient_checkpointing"))


def read_trainer(path: Path, *, over: Sequence[Overrides] = ()) -> Reading:
    """Read a file of Trainer arguments, as ``HfArgumentParser`` and TRL take them.

    Parameters
    ----------
    path : Path
    over : sequence of Overrides
        What stands above its values.

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
    """
    document = overridden(path, over)
    told = trl_argument(document.data)
    alone = told is not None and not any(one.beneath for one in over)
    if alone:
        document = laid_over(document, Overrides(source="", values={}, beneath=TRL_DEFAULTS))
    ledger = Ledger(document)
    other = next((name for name in SEVERAL_MODELS if ledger.raw(name) is not None), None)
    if other is not None:
        problem = "is of a trainer whose step is more than one model's training, which is not simulated"
        ledger.refuse(other, problem, fix="give the arguments of SFT")
    if alone:
        ledger.note(f"{told} is an argument of TRL: its defaults hold")
    if told is not None or any(one.beneath for one in over):
        check_trl(ledger)
    return ledger.reading(KIND, trainer_settings(ledger), open_fields=open_fields(ledger))


def open_fields(ledger: Ledger, at: str = "") -> tuple[str, ...]:
    """Return the scenario fields that Trainer arguments leave to Accelerate: the precision, where none is asked for."""
    given = ledger.flag(f"{at}bf16") or ledger.flag(f"{at}fp16") or ledger.flag(f"{at}pure_bf16")
    return () if given else ("training.precision",)


def trainer_settings(ledger: Ledger, at: str = "", *, implied: bool = True, packs: bool = True) -> dict[str, Any]:
    """Read Trainer arguments.

    Parameters
    ----------
    ledger : Ledger
    at : str
        In front of every key, such as ``args.``.
    implied : bool
        Whether a backend or a mode of torch.compile alone turns it on, as in Trainer.
    packs : bool
        Whether ``packing`` is TRL's, which keeps the sequences of a pack apart.

    Returns
    -------
    dict
        Scenario fields; None where an argument is absent. Files that are named are in the ledger's ``open``.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"per_device_train_batch_size": 4, "bf16": True, "gradient_checkpointing": True, "optim": "adamw_torch"}
    >>> fields = trainer_settings(Ledger(Document(source="x", data=data)))
    >>> fields["training.micro_batch_size"], fields["training.recompute"], fields["software"]
    (4, 'full', {'preset': 'flash', 'optimizer': 'foreach'})
    """
    for block in ("fsdp_config", "model_init_kwargs"):
        ledger.unfold(f"{at}{block}")
    micro = ledger.integer(f"{at}per_device_train_batch_size", least=1)
    if micro is None:
        micro = ledger.integer(f"{at}per_gpu_train_batch_size", least=1)
    check_machines(ledger, at)
    model = next((name for key in _MODELS if (name := ledger.text(f"{at}{key}"))), None)
    check_overrides(ledger, f"{at}config_overrides")
    settings: dict[str, Any] = {
        "model": model,
        "training.micro_batch_size": micro,
        "training.gradient_accumulation": ledger.integer(f"{at}gradient_accumulation_steps", least=1),
        "training.sequence_length": next((size for key in SEQUENCES if (size := ledger.integer(f"{at}{key}"))), None),
        "training.precision": precision(ledger, at),
        **recomputed(ledger, at, model),
        "ddp.bucket_cap_mb": ledger.integer(f"{at}ddp_bucket_cap_mb", least=1),
        "ddp.find_unused_parameters": ledger.flag(f"{at}ddp_find_unused_parameters"),
        "ddp.broadcast_buffers": ledger.flag(f"{at}ddp_broadcast_buffers"),
        "ddp.static_graph": ledger.flag(f"{at}ddp_static_graph"),
    }
    settings |= kernels(ledger, at, implied=implied)
    settings |= lora(ledger, at)
    settings |= asked_fsdp(ledger, at)
    settings |= accelerator_config(ledger, at, settings["training.gradient_accumulation"])
    settings |= _matched(ledger, at, settings)
    _loaded(ledger, at)
    if ledger.number(f"{at}label_smoothing_factor"):
        ledger.note("label_smoothing_factor: the whole log-softmax in fp32 that it keeps is not simulated")
    if packs:
        check_packed(ledger, at)
    ledger.told(PRICED, at)
    ledger.idle(*(f"{at}{name}" for name in IDLE))
    return settings


def precision(ledger: Ledger, at: str) -> str | None:
    """Return the arithmetic that flags ask for; None when none is set."""
    rounded = ledger.flag(f"{at}tf32")  # of what the others leave in fp32
    if ledger.flag(f"{at}pure_bf16") or ledger.flag(f"{at}bf16"):
        if ledger.flag(f"{at}fp16"):
            ledger.refuse(f"{at}fp16", "At most one of fp16 and bf16 can be True, but not both")
        return "bf16"
    if ledger.flag(f"{at}fp16"):
        return "fp16"
    if ledger.raw(f"{at}amp") is True:
        ledger.get(f"{at}amp")
        ledger.note("amp: autocast to fp16, which is PyTorch's own choice")
        return "fp16"
    return "tf32" if rounded else None


def _loaded(ledger: Ledger, at: str) -> None:
    """Leave open which format weights are loaded in: it counts where nothing keeps them in fp32 beside."""
    for key in ("torch_dtype", "dtype", "model_init_kwargs.torch_dtype", "model_init_kwargs.dtype"):
        word = (ledger.text(f"{at}{key}") or "").lower()
        if word in FORMATS:
            ledger.open["loaded_dtype"] = FORMATS[word]
        elif word == "auto" or f"{at}{key}" in ledger.open:
            ledger.note(
                f"{key}: auto loads weights in the format that they were published in; fp32 is simulated: "
                "--set training.param_dtype=bf16 for those of most models"
            )


def _matched(ledger: Ledger, at: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Note a DeepSpeed file that is named, and what it must say too; return Trainer's defaults of the batch."""
    _inline(ledger, f"{at}deepspeed")
    given, file = ledger.text(f"{at}deepspeed"), ledger.text(f"{at}deepspeed_config")
    switch = (given or "").lower()
    named = file if given is None or switch in _WORDS else given
    if named is None or named.lower() in _WORDS:
        ledger.matched = trainer_values(ledger, at, complete=False)
        return _in_code(ledger, at) if switch == "true" else {}
    ledger.open["deepspeed_config_file"] = named
    complete = named is given and (not at or settings["training.micro_batch_size"] is not None)
    ledger.matched = trainer_values(ledger, at, complete=complete)
    if not complete:
        return {}
    return {
        field: DEFAULTS[key]
        for field, key in (("training.micro_batch_size", MICRO), ("training.gradient_accumulation", STEPS))
        if settings[field] is None
    }


def _inline(ledger: Ledger, key: str) -> None:
    """Make a file of DeepSpeed's options that stand among the arguments, which Trainer takes as well."""
    ledger.unfold(key)
    options, name = ledger.raw(key), "deepspeed.json"
    if isinstance(options, dict):
        ledger.put(key, name)
        ledger.written = {**ledger.written, name: json.dumps(options)}


def _in_code(ledger: Ledger, at: str) -> dict[str, Any]:
    """Read what a script takes that makes DeepSpeed's configuration in its own code, as DeepSpeed-Chat does.

    deepspeedai/DeepSpeedExamples applications/DeepSpeed-Chat dschat/utils/ds_utils.py, get_train_ds_config.
    """
    stage = ledger.integer(f"{at}zero_stage")
    if stage is None or stage > 3:
        words = "--deepspeed, and no file of DeepSpeed's configuration: give it as another FILE"
        ledger.open["parallel.data_parallel"] = words
        return {}
    settings: dict[str, Any] = {"parallel.data_parallel": f"zero{stage}" if stage else "ddp"}
    if ledger.flag(f"{at}offload"):
        kept = {"device": "cpu", "pin_memory": False}
        settings |= {f"zero.{name}": kept for name, least in _OFFLOADED.items() if stage >= least}
    word = (ledger.text(f"{at}dtype") or "fp16").lower()
    if word in FORMATS and precision(ledger, at) is None:
        settings["training.precision"] = FORMATS[word]
        ledger.note(
            f"the script makes DeepSpeed's configuration: stage {stage} and {FORMATS[word]}, as DeepSpeed-Chat does "
            "with these arguments, and DeepSpeed's defaults for what they do not say"
        )
    return settings
