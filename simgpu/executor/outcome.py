"""What comes back from a task, and what tasks may be handed to."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from simgpu.errors import SimGPUError


class ExecutorError(SimGPUError):
    """An executor that cannot take, or cannot return, any task."""


class TaskExecutor(Protocol):
    """Whatever has the ``submit`` of ``concurrent.futures.Executor``: a pool, mpi4py's, loky's, a Dask client's."""

    def submit(self, fn: Any, /, *args: Any) -> Future[Any]:
        """Start ``fn(*args)`` somewhere and return its future."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one task.

    Parameters
    ----------
    index : int
        Position of the task.
    value : object
        What the function returned; None for a lost task.
    lost : str
        Why there is no value: the process that ran it died, twice; empty otherwise.
    """

    index: int
    value: Any = None
    lost: str = ""
