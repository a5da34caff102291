"""Runs many independent simulations in parallel, survives lost workers, and keeps what is finished."""

from __future__ import annotations

from simgpu.executor.journal import Journal
from simgpu.executor.outcome import ExecutorError, Outcome, TaskExecutor
from simgpu.executor.run import default_jobs, run_tasks
from simgpu.executor.version import code_version

__all__ = ["ExecutorError", "Journal", "Outcome", "TaskExecutor", "code_version", "default_jobs", "run_tasks"]
