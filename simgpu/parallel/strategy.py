"""The parallel layout a user asked for, checked and complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from simgpu.parallel.data_parallel_options import (
    FSDP_KINDS,
    DdpOptions,
    DistributedOptimizerOptions,
    FsdpOptions,
    ZeroOptions,
)
from simgpu.parallel.schedules.table import PipelineSchedule
from simgpu.workload.splits import Splits


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How ranks are laid out and what each axis does.

    Parameters
    ----------
    tp, pp, cp, dp : int
        Degrees of tensor, pipeline, context and data parallelism; their product is the world size.
    ep : int
        Degree of expert parallelism, which takes its ranks from cp and dp (and tp where ``expert_tp`` is 1).
    expert_tp : int or None
        Tensor-parallel degree of the experts: 1, or None for tp.
    cp_comm_type : str
        A name of `simgpu.workload.splits.CP_COMM_TYPES`.
    tp_overlap : bool
        Cut tensor-parallel exchanges in chunks that run beside the GEMMs (user buffers).
    dp_shard : int or None
        Neighbouring data-parallel ranks that form a sub-group: those that share one copy of the states (HSDP), or
        those of one node (ZeRO++). None where the dp ranks are all alike.
    order : tuple of str
        Mesh axes, slowest first; the last axis' ranks are neighbours. Without ``ep``, it stands behind ``dp``.
    sequence_parallel : bool
        Shard norms and dropout over tp (Megatron SP).
    schedule : str
        Pipeline schedule: a name of `simgpu.parallel.schedules.PIPELINE_SCHEDULES`.
    virtual_stages : int
        Stages that each pipeline rank holds.
    table : PipelineSchedule or None
        A schedule from a file, in place of a named one.
    pipeline_microbatches : int or None
        Micro-batches of one run of the pipeline, of which a step has several; None where it has one with all of them.
    overlap_p2p : bool
        Post receives early and never wait for sends.
    scatter_gather : bool
        Send 1/tp of an activation from each tensor-parallel rank, and gather it where it arrives (Megatron).
    data_parallel : str
        A name of `simgpu.parallel.data_parallel.STRATEGIES`.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    dp_shard: int | None = None
    cp: int = 1
    ep: int = 1
    expert_tp: int | None = None
    cp_comm_type: str = "p2p"
    tp_overlap: bool = False
    order: tuple[str, ...] = ("pp", "dp", "cp", "tp")
    sequence_parallel: bool = False
    schedule: str = "1f1b"
    virtual_stages: int = 1
    table: PipelineSchedule | None = None
    pipeline_microbatches: int | None = None
    overlap_p2p: bool = False
    scatter_gather: bool = False
    layers_per_stage: tuple[int, ...] | None = None
    data_parallel: str = "none"
    ddp: DdpOptions = field(default_factory=DdpOptions)
    zero: ZeroOptions = field(default_factory=ZeroOptions)
    fsdp: FsdpOptions = field(default_factory=FsdpOptions)
    distributed_optimizer: DistributedOptimizerOptions = field(default_factory=DistributedOptimizerOptions)

    @property
    def model_parallel(self) -> bool:
        """Whether one replica spans several GPUs."""
        return self.tp > 1 or self.pp > 1 or self.cp > 1 or self.ep > 1

    @property
    def megatron(self) -> bool:
        """Whether the framework is Megatron: its optimizer, or replicas of several GPUs that nothing shards."""
        return self.data_parallel == "distributed_optimizer" or (
            self.model_parallel and self.data_parallel in ("none", "ddp")
        )

    @property
    def threaded(self) -> bool:
        """Whether one process runs all replicas in threads (torch.nn.DataParallel)."""
        return self.data_parallel == "dataparallel" and self.dp > 1

    @property
    def offloads(self) -> bool:
        """Whether states are kept in host memory or on an SSD."""
        if self.data_parallel.startswith("zero"):
            return self.zero.offload_optimizer is not None or self.zero.offload_param is not None
        return self.data_parallel in FSDP_KINDS and self.fsdp.cpu_offload

    @property
    def alone_alike(self) -> bool:
        """Whether a single replica does as many do: FSDP casts, gathers and drops units; what is offloaded moves."""
        return self.offloads or self.data_parallel in FSDP_KINDS

    @property
    def divided(self) -> bool:
        """Whether the dp axis is two: sub-groups of ``dp_shard`` ranks, and the sub-groups among each other."""
        return self.dp_shard is not None and 1 < self.dp_shard < self.dp

    @property
    def splits(self) -> Splits:
        """What is split besides tensor parallelism's rows and columns."""
        return Splits(
            cp=self.cp,
            cp_comm_type=self.cp_comm_type,
            ep=self.ep,
            expert_tp=self.expert_tp,
            tp_overlap=self.tp_overlap,
            replicas=self.replicas,
        )

    @property
    def replicas(self) -> int:
        """Ranks that hold the same weights outside the experts, dp x cp."""
        return self.dp * self.cp

    @property
    def expert_replicas(self) -> int:
        """Ranks that hold the same experts."""
        return self.dp * self.cp * self.tp // (self.ep * self.expert_tensor)

    @property
    def expert_tensor(self) -> int:
        """Ranks over which the columns of an expert are split."""
        return self.tp if self.expert_tp is None else self.expert_tp

    @property
    def experts_apart(self) -> bool:
        """Whether the experts' weights are replicated over other ranks than the rest."""
        return self.ep > 1 or self.expert_tensor != self.tp

    @property
    def for_weights(self) -> Strategy:
        """Return how data parallelism of the weights outside the experts sees this: context ranks are replicas."""
        shard = None if self.dp_shard is None else self.dp_shard * self.cp
        return replace(self, dp=self.replicas, dp_shard=shard)

    @property
    def copies(self) -> int:
        """Copies of the weights, or of the experts where there are more of them."""
        return max(self.replicas, self.expert_replicas) if self.experts_apart else self.replicas

    @property
    def for_experts(self) -> Strategy:
        """Return how data parallelism of the experts sees this, among those that hold the same ones.

        Under hybrid sharding the sub-groups keep a copy of the experts each.

        Examples
        --------
        >>> strategy = Strategy(dp=4, cp=2, ep=4)
        >>> strategy.for_weights.dp, strategy.for_experts.dp
        (8, 2)
        >>> hybrid = Strategy(dp=8, dp_shard=4, ep=2, data_parallel="hsdp").for_experts
        >>> hybrid.dp, hybrid.dp_shard
        (4, 2)
        """
        shard = self.expert_replicas // self.sub_groups if self.sub_groups > 1 else None
        return replace(self, dp=self.expert_replicas, dp_shard=shard)

    @property
    def sub_groups(self) -> int:
        """Copies of the states under hybrid sharding; 1 for other kinds of data parallelism."""
        return self.dp // self.dp_shard if self.data_parallel == "hsdp" and self.divided and self.dp_shard else 1

    @property
    def mesh_degrees(self) -> Mapping[str, int]:
        """Axes of the mesh with their degrees, slowest first.

        Examples
        --------
        >>> Strategy(dp=8, tp=2, dp_shard=4, data_parallel="hsdp").mesh_degrees
        {'pp': 1, 'dp_replicate': 2, 'dp_shard': 4, 'cp': 1, 'tp': 2}
        """
        degrees: dict[str, int] = {}
        for axis in self.order:
            if axis == "dp" and self.divided and self.dp_shard is not None:
                degrees |= {"dp_replicate": self.dp // self.dp_shard, "dp_shard": self.dp_shard}
            elif axis != "ep":
                degrees[axis] = getattr(self, axis)
        return degrees

    @property
    def expert_mesh_degrees(self) -> Mapping[str, int]:
        """Axes of the same ranks as the experts are laid out on them, slowest first.

        Megatron makes a second grid from the same order: ``edp`` replicas of the experts in the place of dp, ep in its
        own, nothing in that of cp (NVIDIA/Megatron-LM core/parallel_state.py, expert_decoder_rank_generator). Under
        hybrid sharding edp is two axes, as dp is: ep is taken from within the sub-groups (pytorch/torchtitan
        torchtitan/distributed/parallel_dims.py).

        Examples
        --------
        >>> Strategy(dp=4, cp=2, tp=2, ep=4).expert_mesh_degrees
        {'pp': 1, 'edp': 2, 'ep': 4, 'etp': 2}
        """
        replicas: tuple[tuple[str, int], ...] = (("edp", self.expert_replicas),)
        if self.sub_groups > 1:
            replicas = (("edp_replicate", self.sub_groups), ("edp_shard", self.expert_replicas // self.sub_groups))
        sizes: dict[str, tuple[tuple[str, int], ...]] = {
            "pp": (("pp", self.pp),),
            "dp": replicas,
            "cp": (),
            "ep": (("ep", self.ep),),
            "tp": (("etp", self.expert_tensor),),
        }
        order = list(self.order)
        if "ep" not in order:
            order.insert(order.index("dp") + 1, "ep")
        return dict(size for axis in order for size in sizes[axis])

    @property
    def mesh_axes(self) -> Mapping[str, tuple[str, ...]]:
        """Mesh axes behind the communicators; single ranks left out.

        ``tp``, ``cp`` and ``pp``, ``dp`` with its sub-groups where it is divided, over context ranks too; and where the
        experts are laid out in another way ``ep`` and ``edp``, whose axes are those of the experts' mesh.

        Examples
        --------
        >>> Strategy(dp=8, dp_shard=4).mesh_axes["dp"], Strategy(dp=8).mesh_axes
        (('dp_replicate', 'dp_shard'), {'dp': ('dp',)})
        >>> Strategy(dp=4, cp=2, ep=4).mesh_axes
        {'cp': ('cp',), 'dp': ('dp', 'cp'), 'ep': ('ep',), 'edp': ('edp',)}
        """
        axes: dict[str, tuple[str, ...]] = {axis: (axis,) for axis in ("tp", "cp", "pp") if getattr(self, axis) > 1}
        context = ("cp",) if self.cp > 1 else ()
        if self.replicas > 1:
            axes["dp"] = (*(("dp",) if self.dp > 1 else ()), *context)
        if self.divided:
            replicate, shard = "dp_replicate", "dp_shard"
            axes |= {"dp": (replicate, shard, *context), shard: (shard, *context), replicate: (replicate,)}
        if self.ep > 1:
            axes["ep"] = ("ep",)
        if self.experts_apart and (self.expert_replicas > 1 or self.shards_experts):
            parts = ("edp_replicate", "edp_shard")
            axes |= {"edp": parts, **{part: (part,) for part in parts}} if self.sub_groups > 1 else {"edp": ("edp",)}
            axes.setdefault("dp", ("dp",))
        return axes

    @property
    def shards_experts(self) -> bool:
        """Whether experts of a single copy are sharded and gathered as the rest is, on groups of one rank."""
        return self.alone_alike or self.data_parallel == "zero3"

    @property
    def world_size(self) -> int:
        """Number of ranks, tp x pp x cp x dp."""
        return self.tp * self.pp * self.cp * self.dp
