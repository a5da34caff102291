"""What one file of another program says about a run, in scenario fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
    used, idle, unknown : tuple of str
        Keys that became settings, keys without effect on time and memory, keys not understood.
    open : mapping of str to str
        Fields that the file leaves to others (``"auto"``, flags without value), with the words it uses.
    notes : tuple of str
        What a reader of the scenario should know.
    """

    source: str
    kind: str
    settings: Mapping[str, Any]
    gpus: int | None = None
    used: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    open: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
