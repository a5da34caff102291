"""What one file of another program says about a run, in scenario fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simgpu.errors import printable
from simgpu.io.foreign.degrees import Degrees
from simgpu.io.foreign.overrides import Overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One configuration file, every key accounted for.

    Parameters
    ----------
    source : str
        Its name, for messages.
    kind : str
        ``deepspeed``, ``accelerate``, ``megatron-args``, ...
    settings : mapping of str to value
        Dotted scenario fields, such as ``training.micro_batch_size``; the model under ``model``, as a bundled name, a
        path, or a mapping of dimensions.
    gpus : int or None
        Ranks of the job, where the file tells.
    degrees : Degrees or None
        What the ranks are the product of, where the file has all of it.
    used, idle, unknown : tuple of str
        Keys that became settings, keys without effect on time and memory, keys not understood.
    near : mapping of str to str
        Keys that were probably meant, by keys that are not understood.
    matched : mapping of str to value
        What Transformers compares between a DeepSpeed file and Trainer arguments, by DeepSpeed's keys.
    open : mapping of str to str
        Fields that the file leaves to others (``"auto"``, flags without value), with the words it uses.
    written : mapping of str to str
        Files that a script writes before it starts the job, by name, with their text.
    notes : tuple of str
        What a reader of the scenario should know.
    logs : tuple of str
        Paths for ``network.logs``.
    options : mapping
        What the file holds for another one that names it.
    over : tuple of Overrides
        What a launch line sets above the files that it names.
    """

    source: str
    kind: str
    settings: Mapping[str, Any]
    gpus: int | None = None
    degrees: Degrees | None = None
    used: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    near: Mapping[str, str] = field(default_factory=dict)
    matched: Mapping[str, Any] = field(default_factory=dict)
    open: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    over: tuple[Overrides, ...] = ()

    @property
    def not_understood(self) -> str:
        """Keys that are not understood, each with the one that was probably meant; empty where there are none."""
        told = (f" (did you mean {self.near[key]}?)" if key in self.near else "" for key in self.unknown)
        return printable(", ".join(key + meant for key, meant in zip(self.unknown, told, strict=True)))
