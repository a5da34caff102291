"""Communicators of a step: which there are, over which ranks each group runs, and what they count as."""

from __future__ import annotations

from simgpu.lower.offload import HOST_STREAMS
from simgpu.lower.role import Chunk
from simgpu.parallel.data_parallel.shard_group import COPIES
from simgpu.parallel.placement import Placement
from simgpu.parallel.strategy import Strategy
from simgpu.program import HOST
from simgpu.workload.training import Training

EXPERT_AXES = frozenset({"ep", "edp", "edp_shard", "edp_replicate", "etp"})
"""Axes of the mesh that the experts are laid out on."""
OWN_GROUPS = frozenset({"embedding", "mirror"})
"""Communicators of some of the ranks along their axes only."""


def communicator_axes(
    chunks: tuple[Chunk, ...], placement: Placement, training: Training, strategy: Strategy
) -> dict[str, tuple[str, ...]]:
    """Communicators in use and the mesh axes that each of their groups runs along.

    The gradient norm is summed over the axes along which ranks hold different gradients.

    Parameters
    ----------
    chunks : tuple of Chunk
        All stages.
    placement : Placement
    training : Training
    strategy : Strategy

    Examples
    --------
    >>> from simgpu.parallel.placement import loop
    >>> from simgpu.lower.stage_plan import stage_plan
    >>> from simgpu.lower.stage_units import StageUnits
    >>> from simgpu.parallel.data_parallel import StageWeights
    >>> training = Training(sequence_length=1, micro_batch_size=1, accumulation=1)
    >>> empty = StageUnits(units=(), names=(), weights=StageWeights(kinds=(), gradients=()))
    >>> chunk = Chunk(parts=empty, plan=stage_plan(empty, training, Strategy(tp=2)))
    >>> communicator_axes((chunk,), loop(1), training, Strategy(tp=2))
    {'tp': ('tp',)}
    """
    axes = dict(strategy.mesh_axes)
    if strategy.threaded:
        return axes | {HOST: axes["dp"]}
    if strategy.alone_alike:
        axes = {"dp": ("dp",), **axes}
    if strategy.offloads:
        axes |= dict.fromkeys(HOST_STREAMS, ())
    if any(chunk.plan.copies_apart for chunk in chunks):
        axes[COPIES] = ()
    if any(chunk.parts.tied_elements for chunk in chunks):
        axes["embedding"] = ("pp",)
    if placement.mirrored_from is not None and any(chunk.parts.weights.elements for chunk in chunks):
        axes["mirror"] = ("pp",)
    shards = max(chunk.plan.gradient_shards for chunk in chunks)
    sharded = "dp_shard" if strategy.divided and shards == strategy.for_weights.dp_shard else "dp"
    different = {"pp": strategy.pp > 1, "tp": strategy.tp > 1, sharded: shards > 1}
    norm = tuple(mesh_axis for axis, differs in different.items() if differs for mesh_axis in axes[axis])
    if strategy.ep > 1 and shards == 1:  # gradients of experts differ within the replicas
        whole = strategy.data_parallel in ("none", "ddp")
        axes_of = strategy.expert_mesh_degrees.items()
        norm = tuple(axis for axis, degree in axes_of if degree > 1 and not (whole and axis == "edp"))
    if norm and training.optimizer != "none" and any(chunk.plan.optimizer_elements for chunk in chunks):
        axes["norm"] = norm
    return axes


def groups_along(
    name: str, along: tuple[int, ...], chunks: tuple[Chunk, ...], placement: Placement
) -> tuple[tuple[int, ...], ...]:
    """Return the groups of a communicator among the ranks along its axes: mostly all of them.

    Parameters
    ----------
    name : str
        Of the communicator.
    along : tuple of int
        Ranks along its axes.
    chunks : tuple of Chunk
        All stages.
    placement : Placement

    Examples
    --------
    >>> from simgpu.parallel.placement import both_ways
    >>> groups_along("mirror", (4, 5, 6, 7), (), both_ways(4, mirrored_from=8))
    ((4, 7), (5, 6))
    """
    if name == "embedding":
        ranks = sorted({placement.rank(stage) for stage, chunk in enumerate(chunks) if chunk.parts.tied_elements})
        ways = (ranks,) if placement.mirrored_from is None else (ranks, [placement.ranks - 1 - rank for rank in ranks])
        return tuple(tuple(along[rank] for rank in way) for way in ways)
    if name == "mirror":
        return tuple(zip(along[: len(along) // 2], reversed(along[len(along) // 2 :]), strict=True))
    return (along,)


def accounting_axis(name: str, mesh_axes: tuple[str, ...]) -> str:
    """Return the class of a communicator's transfers: replicas count as dp, those along cp too.

    Examples
    --------
    >>> accounting_axis("edp", ("edp",)), accounting_axis("norm", ("pp", "tp"))
    ('dp', 'pp')
    """
    if name in HOST_STREAMS or name == HOST:
        return "host"
    if "pp" in mesh_axes:
        return "pp"
    if mesh_axes == ("tp",):
        return "tp"
    return name if name in ("cp", "ep") else "dp"
