"""One run as the writers of launch files take it, and how they refuse what a program cannot be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.errors import Issue, ScenarioError
from simgpu.parallel.strategy import Strategy
from simgpu.workload.architecture import Architecture
from simgpu.workload.software import DEFAULT, Software
from simgpu.workload.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run, checked and complete.

    Parameters
    ----------
    title : str
        One line for the heads of files.
    nodes, gpus : int
        Machines, and GPUs in all, as many on each.
    model : Architecture
    model_config : mapping or None
        The model's ``config.json``; None for a model that is given by its dimensions.
    training : Training
    strategy : Strategy
    software : Software
    nccl : NcclSettings
    """

    title: str
    nodes: int
    gpus: int
    model: Architecture
    training: Training
    strategy: Strategy
    software: Software = DEFAULT
    nccl: NcclSettings = CURRENT
    model_config: Mapping[str, Any] | None = None

    @property
    def gpus_per_node(self) -> int:
        """Processes that a launcher starts on each node."""
        return self.gpus // self.nodes

    @property
    def global_batch_size(self) -> int:
        """Sequences per optimizer step."""
        return self.training.micro_batch_size * self.strategy.dp * self.training.accumulation

    @property
    def kind(self) -> str:
        """Kind of data parallelism; ``none`` where there is a single copy that nothing shards."""
        alone = self.strategy.copies == 1 and self.strategy.data_parallel == "ddp"
        return "none" if alone else self.strategy.data_parallel

    @property
    def precision(self) -> str:
        """Arithmetic as a scenario names it."""
        return "fp8" if self.training.fp8 else str(self.training.precision)


Files = Mapping[str, str]
"""Texts by the names of their files."""


def cannot(
    name: str, value: object, problem: str, *, allowed: str | None = None, fix: str | None = None
) -> ScenarioError:
    """Return the error that refuses to write files, because a program cannot be told a field.

    Parameters
    ----------
    name : str
        The scenario's field.
    value : object
    problem : str
        A sentence about the program.
    allowed, fix : str, optional

    Returns
    -------
    ScenarioError

    Examples
    --------
    >>> print(cannot("parallel.pp", 4, "DeepSpeed's pipeline is part of the training code", allowed="1"))
    parallel.pp = 4: DeepSpeed's pipeline is part of the training code; allowed: 1
    """
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return ScenarioError([Issue(field=name, value=shown, problem=problem, allowed=allowed, fix=fix)])
