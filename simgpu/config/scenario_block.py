"""The whole scenario file."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from simgpu.config.block import Block
from simgpu.config.cluster_block import ClusterBlock
from simgpu.config.data_parallel_block import DdpBlock, DistributedOptimizerBlock, FsdpBlock, ZeroBlock
from simgpu.config.environment_block import CostsBlock, MeasuredBlock, NetworkField, PerturbBlock, SoftwareField
from simgpu.config.model_block import ModelField
from simgpu.config.parallel_block import ParallelBlock
from simgpu.config.quantity import Price, Text
from simgpu.config.search_block import SearchBlock
from simgpu.config.training_block import TrainingBlock

FrameworkField = Literal[
    "megatron", "nemo", "torchtitan", "nanotron", "picotron", "gptneox", "deepspeed", "accelerate", "trainer",
    "axolotl", "llamafactory", "ms-swift", "oumi", "torchtune", "litgpt", "olmo", "llm-foundry",
]  # fmt: skip
"""Programs whose options are known (``simgpu/data/lever_options.csv``)."""


class VariantBlock(Block):
    """One case of a comparison: the scenario with some fields set differently."""

    name: Text
    """How tables and figures call it."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Dotted fields and their values: {cluster.gpus: 4}. A mapping replaces a whole block, null unsets a field."""
    measured: MeasuredBlock | None = None
    """A published value to compare with."""


class ScenarioBlock(Block):
    """A SimGPU scenario: which model, which machines, which parallelism."""

    schema_: Text | None = Field(default=None, alias="$schema")
    """Path of this schema, for editors."""
    name: Text | None = None
    """Title of the report; the file's name when left out."""
    model: ModelField
    """Bundled name, path of a Hugging Face config.json (relative to this file), dimensions, or a synthetic model."""
    cluster: ClusterBlock
    """Which machines, how many, and what joins them."""
    training: TrainingBlock
    """Batch, number formats, optimizer."""
    parallel: ParallelBlock = Field(default_factory=ParallelBlock)
    """How ranks are laid out and what each axis does."""
    ddp: DdpBlock | None = None
    """Options of data_parallel: ddp."""
    zero: ZeroBlock | None = None
    """Options of data_parallel: zero1, zero2, zero3."""
    fsdp: FsdpBlock | None = None
    """Options of data_parallel: fsdp."""
    distributed_optimizer: DistributedOptimizerBlock | None = None
    """Options of data_parallel: distributed_optimizer."""
    network: NetworkField | None = None
    """`free`: communication costs nothing; or choices of the communication library."""
    software: SoftwareField | None = None
    """Software generation: a preset's name, or a block."""
    costs: CostsBlock | None = None
    """How ops are priced: device rates, power cap, measured op times."""
    framework: FrameworkField | None = None
    """Whose options `--advice` names; without it the kind of parallelism tells."""
    perturb: PerturbBlock | None = None
    """Disturbances: seed, jitter, slow ranks, degraded links."""
    price_per_gpu_hour: Price | None = None
    """Money per GPU and hour, in any currency."""
    variants: list[VariantBlock] | None = None
    """Cases to compare; each is the scenario with some fields set differently."""
    sweep: dict[str, Any] | None = None
    """Grid: dotted fields and the list of their values."""
    search: SearchBlock | None = None
    """Strategies that simgpu search chooses from."""
    measured: MeasuredBlock | None = None
    """A published value to compare with."""
