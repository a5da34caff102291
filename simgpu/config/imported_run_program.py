"""The program of an imported run: whose options its advice names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.io.foreign import launch_line
from simgpu.io.foreign.reading import Reading

_PROGRAMS: Final = (
    "nemo", "torchtitan", "nanotron", "picotron", "gptneox", "axolotl", "llamafactory", "ms-swift", "oumi", "torchtune",
    "litgpt", "olmo", "llm-foundry", "megatron", "trainer",
)  # fmt: skip
"""Those that one of the files is of, before those that they are built on."""
_OF_TRAINER: Final = ("args.per_device_train", "args.per_gpu_train")
"""Arguments of a launch line that only Transformers' Trainer has."""


def training_program(readings: Sequence[Reading]) -> str | None:
    """Return the program that trains, as a scenario's ``framework`` names it.

    Parameters
    ----------
    readings : sequence of Reading

    Returns
    -------
    str or None
        None where files do not tell; the kind of parallelism does then.

    Examples
    --------
    >>> training_program([Reading(source="a.sh", kind="megatron-args", settings={})])
    'megatron'
    >>> training_program([Reading(source="ds.json", kind="deepspeed", settings={})]) is None
    True
    """
    kinds = {"megatron" if reading.kind.startswith("megatron") else reading.kind for reading in readings}
    found = next((name for name in _PROGRAMS if name in kinds), None)
    if found is not None:
        return found
    trained = any(key.startswith(_OF_TRAINER) for reading in readings if reading.kind == launch_line.KIND
                  for key in reading.used)  # fmt: skip
    return "trainer" if trained else None
