"""What a scenario comes down to: cases, each ready to be simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgpu.costs.choice import CATALOGUE, OpCosts
from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.lower.perturbation import UNDISTURBED, Perturbation
from simgpu.parallel.strategy import Strategy
from simgpu.workload.software import DEFAULT, Software
from simgpu.workload.training import Training

if TYPE_CHECKING:
    from simgpu.hardware.cluster import Cluster
    from simgpu.workload.architecture import Architecture
    from simgpu.workload.synthetic import SyntheticModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run, checked and complete: what is trained, on what, and how.

    Parameters
    ----------
    name : str
        The variant's name, or the scenario's.
    cluster : Cluster
    model : Architecture or SyntheticModel
    training : Training
    strategy : Strategy
        Its world size is the cluster's number of GPUs.
    network_free : bool
        Communication costs nothing.
    nccl : NcclSettings
        NCCL's version and environment variables.
    costs : OpCosts
        Device rates and measured ops.
    software : Software
        Software generation.
    perturbation : Perturbation
        Slow ranks and jitter.
    price_per_gpu_hour : float or None
        In any currency.
    train_tokens : int or None
        Tokens of the whole training.
    framework : str or None
        Whose options advice names; None where the strategy tells.
    warnings : tuple of str
        What the user should know about the case.
    """

    name: str
    cluster: Cluster
    model: Architecture | SyntheticModel
    training: Training
    strategy: Strategy
    network_free: bool = False
    nccl: NcclSettings = CURRENT
    costs: OpCosts = CATALOGUE
    software: Software = DEFAULT
    perturbation: Perturbation = UNDISTURBED
    price_per_gpu_hour: float | None = None
    train_tokens: int | None = None
    framework: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def global_batch_size(self) -> int:
        """Sequences per optimizer step, of all ranks together."""
        return self.training.micro_batch_size * self.training.accumulation * self.strategy.dp


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario file, read.

    Parameters
    ----------
    name : str
        Its title.
    stem : str
        What output files are called after: the file's name without folder and suffix.
    path : Path or None
        The file; None for a mapping.
    cases : tuple of Case
        One per variant; one in all without variants.
    files : tuple of Path
        Every file that was read: the scenario's own, models and topologies.
    text : str
        The file as it was read; empty for a mapping.
    data : mapping
        What it holds, before any setting.
    drafts : tuple of mapping
        What a file of each case alone would hold.
    """

    name: str
    stem: str
    path: Path | None
    cases: tuple[Case, ...]
    files: tuple[Path, ...] = ()
    text: str = field(default="", repr=False)
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    drafts: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
