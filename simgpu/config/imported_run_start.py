"""What starts the processes of an imported run: plain Python starts one, which has all GPUs that it sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from simgpu.config.imported_run_merge import Merged
from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.launch_line import PLAIN, TRAINER
from simgpu.io.foreign.machine_files import NETWORK_LOG
from simgpu.io.foreign.reading import Reading

_KIND: Final = "parallel.data_parallel"
_BESIDE: Final = ("launch-line", "trainer", "axolotl", "llamafactory", "deepspeed", "hf-config", NETWORK_LOG)
"""Files beside which nothing else starts processes: Accelerate's configuration says that its launcher does."""


def settle_start(merged: Merged, readings: Sequence[Reading], *, gpus_given: int | None) -> list[Reading]:
    """Join the GPUs of a script that plain Python starts as its library does.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    readings : sequence of Reading
        A launch line of plain Python has the library in ``open["plain_python"]``.
    gpus_given : int or None
        What the user says.

    Returns
    -------
    list of Reading
        With one GPU where one process has no more.

    Raises
    ------
    ScenarioError
        For FSDP, as Trainer refuses it.

    References
    ----------
    hiyouga/LLaMA-Factory src/llamafactory/hparams/parser.py (``ParallelMode.NOT_DISTRIBUTED`` is refused);
    huggingface/transformers src/transformers/trainer.py (``_wrap_model``, ``args.n_gpu``) and training_args.py
    (``train_batch_size``: per device, times the GPUs that the process sees).

    Examples
    --------
    >>> line = Reading(source="run.sh", kind="launch-line", settings={}, open={"plain_python": "trainer"})
    >>> merged = Merged()
    >>> _ = settle_start(merged, [line], gpus_given=None)
    >>> merged.values
    {'parallel.data_parallel': 'dataparallel'}
    """
    line = next((reading for reading in readings if PLAIN in reading.open), None)
    if line is None or any(reading.kind not in _BESIDE for reading in readings):
        return list(readings)
    asked = merged.get(_KIND)
    alone = {"deepspeed", "llamafactory"} & {reading.kind for reading in readings}
    if line.open[PLAIN] == TRAINER and asked in (None, "ddp") and not alone:
        merged.put(_KIND, "dataparallel", line.source)
        merged.notes.append(
            "started with python alone: Trainer joins the GPUs that its one process sees with torch.nn.DataParallel, "
            "and takes per_device_train_batch_size sequences for each; torchrun or accelerate launch would be DDP"
        )
        return list(readings)
    if line.open[PLAIN] == TRAINER and asked is not None and asked.startswith(("fsdp", "hsdp")):
        problem = "Trainer: Using fsdp only works in distributed training, and plain python starts one process"
        fix = "start it with torchrun or accelerate launch"
        raise ScenarioError([Issue(field="fsdp", problem=problem, fix=fix, file=line.source)])
    if "llamafactory" in alone and (line.gpus or 1) > 1:
        problem = "LLaMA-Factory: Please launch distributed training with `llamafactory-cli` or `torchrun`"
        raise ScenarioError([Issue(field="gpus", value=str(line.gpus), problem=problem, file=line.source)])
    if gpus_given is not None:
        return list(readings)
    merged.notes.append(
        "started with python alone: its one process has one GPU; torchrun, deepspeed or accelerate launch use more"
    )
    return [replace(reading, gpus=1 if reading is line else None) for reading in readings]
