"""A Dask cluster as an executor. Needs the extra ``dask``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from simgpu.executor.outcome import ExecutorError, TaskExecutor
from simgpu.executor.version import code_version

_PATIENCE_S: Final = 20.0  # seconds for the scheduler to answer, and for a first worker to be there


@contextmanager
def dask_executor(address: str) -> Iterator[TaskExecutor]:
    """Connect to a Dask cluster.

    Parameters
    ----------
    address : str
        Of its scheduler, such as ``tcp://10.0.0.5:8786``.

    Yields
    ------
    TaskExecutor
        Dask itself moves the tasks of a worker that dies to others.

    Raises
    ------
    ExecutorError
        When Dask is not installed, nobody answers, there are no workers, or they run another SimGPU.
    """
    try:
        distributed: Any = import_module("distributed")  # an extra: may be absent, and has no types
    except ImportError:
        raise ExecutorError("Dask is not installed; fix: pip install 'simgpu[dask]'") from None
    try:
        client = distributed.Client(address, timeout=_PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as error:
        fix = "fix: start one with `dask scheduler`, and name its address, such as tcp://10.0.0.5:8786"
        raise ExecutorError(f"{address}: no Dask scheduler answers: {error}; {fix}") from None
    try:
        _check_workers(client, address)
        # Two tasks with the same arguments are the same task to Dask unless told that they are impure; ours are pure.
        yield client.get_executor(pure=False)
    finally:
        client.close(timeout=_PATIENCE_S)


def _check_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers, or whose workers cannot run our tasks."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE_S)
    except TimeoutError:
        raise ExecutorError(f"{address}: has no workers; fix: start some with `dask worker {address}`") from None
    fix = "fix: install the same SimGPU there"
    try:
        versions = client.run(code_version)
    except Exception as error:
        raise ExecutorError(f"{address}: the workers cannot run SimGPU: {error}; {fix}") from None
    other = {worker: found for worker, found in versions.items() if found != code_version()}
    if other:
        worker, found = next(iter(other.items()))
        raise ExecutorError(f"{worker}: runs SimGPU {found}, this is {code_version()}; {fix}")
