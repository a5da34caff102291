"""GPUs, replicas and option blocks of an imported run, once all files are laid over each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from simgpu.config.imported_run_merge import Merged
from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.torchtitan import DDP_BUCKET_MIB
from simgpu.parallel.data_parallel_options import FSDP_KINDS

"""Kinds of data parallelism by PyTorch's FSDP."""
_STAGE3: Final = "zero.stage3_"
_BELOW_STAGE3: Final = ("zero.allgather_bucket_size", "zero.use_multi_rank_bucket_allreduce")
_PLUS: Final = ("zero.zero_quantized_weights", "zero.zero_quantized_gradients", "zero.zero_hpz_partition_size")
_TRIVIAL: Final = {
    "parallel.tp": 1, "parallel.pp": 1, "parallel.cp": 1, "parallel.ep": 1, "parallel.virtual_stages": 1,
    "parallel.sequence_parallel": False, "training.recompute": "none", "fsdp.reshard_after_forward": True,
    "fsdp.forward_prefetch": False, "fsdp.limit_all_gathers": True, "ddp.find_unused_parameters": False,
    "ddp.broadcast_buffers": True, "ddp.static_graph": False,
    "distributed_optimizer.overlap_grad_reduce": False, "distributed_optimizer.overlap_param_gather": False,
    "parallel.overlap_p2p": False, "parallel.expert_tp": None,
}  # fmt: skip
"""What a scenario takes when the field is left out."""


def model_parallel(merged: Merged) -> int:
    """Return the GPUs of one replica: tp x pp x cp.

    Examples
    --------
    >>> model_parallel(Merged(values={"parallel.tp": 2, "parallel.cp": 4}))
    8
    """
    size = 1
    for axis in ("tp", "pp", "cp"):
        size *= merged.get(f"parallel.{axis}") or 1
    return size


def least_gpus(merged: Merged) -> int:
    """Return the fewest GPUs that hold whole replicas and every expert.

    Notes
    -----
    The dp x cp x tp ranks of a pipeline stage are divided by ep x expert_tp (docs/strategies/expert_parallel.md).

    Examples
    --------
    >>> least_gpus(Merged(values={"parallel.tp": 2, "parallel.pp": 4, "parallel.ep": 16, "parallel.expert_tp": 1}))
    64
    """
    ranks = (merged.get("parallel.tp") or 1) * (merged.get("parallel.cp") or 1)
    expert_tp = merged.get("parallel.expert_tp") or merged.get("parallel.tp") or 1
    holders = (merged.get("parallel.ep") or 1) * expert_tp
    return int(math.lcm(ranks, holders) * (merged.get("parallel.pp") or 1))


def place(merged: Merged, *, gpus: int | None, per_node: int, topology: str, sure: bool) -> tuple[int, int]:
    """Return GPUs in all and nodes.

    Parameters
    ----------
    merged : Merged
        ``cluster.nodes`` is taken out of it.
    gpus : int or None
        None when nobody says: all of the nodes then.
    per_node : int
        GPUs of a node of the topology.
    topology : str
        For messages.
    sure : bool
        Whether the user gave the GPUs himself, for another number of nodes than the files have.

    Returns
    -------
    (int, int)

    Examples
    --------
    >>> place(Merged(values={"cluster.nodes": 2}), gpus=8, per_node=8, topology="dgx-a100", sure=False)
    (8, 2)
    """
    asked = merged.get("cluster.nodes")
    merged.put("cluster.nodes", None, "")
    if gpus is None:
        nodes = asked or 1
        return nodes * per_node, nodes
    nodes = -(-gpus // per_node)
    if asked is None or sure or asked < nodes:
        if asked is not None and asked < nodes and not sure:
            merged.notes.append(
                f"cluster.nodes: {gpus} GPUs are {nodes} nodes of {topology}, which has {per_node} each"
            )
        return gpus, nodes
    return gpus, asked


def join_replicas(merged: Merged, *, gpus: int, nodes: int) -> None:
    """Settle how replicas are joined, and leave out options that belong to other kinds.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    gpus, nodes : int

    Examples
    --------
    >>> merged = Merged(values={"parallel.data_parallel": "hsdp", "zero.overlap_comm": True})
    >>> join_replicas(merged, gpus=4, nodes=1)
    >>> merged.values
    {'parallel.data_parallel': 'fsdp1'}
    """
    replicas = gpus // max(1, model_parallel(merged)) * (merged.get("parallel.cp") or 1)
    kind = merged.get("parallel.data_parallel")
    if kind is None and replicas > 1:
        kind = "ddp"
        merged.put("parallel.data_parallel", kind, "")
        merged.notes.append(
            "parallel.data_parallel: ddp, which is what several processes are without a word on sharding"
        )
    if kind == "hsdp":
        kind = _within_nodes(merged, gpus, nodes)
    for name in list(merged.values):
        if not belongs(name, kind):
            merged.put(name, None, "")


def share_out(merged: Merged, readings: Sequence[Reading], gpus: int) -> None:
    """Give every replica of hybrid sharding its GPUs, where a file says how many replicas and leaves their size.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    readings : sequence of Reading
        The number of replicas is in ``open["sharded_replicas"]``.
    gpus : int

    Raises
    ------
    ScenarioError
        When the GPUs are no multiple of the replicas.

    References
    ----------
    pytorch/torchtitan torchtitan/distributed/parallel_dims.py (dp_shard = -1; a shard of one rank is DDP)

    Examples
    --------
    >>> merged = Merged(values={"parallel.data_parallel": "hsdp", "parallel.tp": 2})
    >>> share_out(merged, [Reading(source="j", kind="torchtitan", settings={}, open={"sharded_replicas": "4"})], 32)
    >>> merged.values["fsdp.shard_size"]
    4
    """
    for reading in readings:
        replicas = int(reading.open.get("sharded_replicas", 0))
        if not replicas or merged.get("parallel.data_parallel") != "hsdp" or merged.get("fsdp.shard_size") is not None:
            continue
        size, rest = divmod(gpus, replicas * model_parallel(merged))
        if rest or not size:
            problem = (
                f"are no multiple of {replicas} replicas (data_parallel_replicate_degree) of {model_parallel(merged)}"
            )
            fix = f"use --gpus {max(1, size) * replicas * model_parallel(merged)}"
            raise ScenarioError([Issue(field="gpus", value=str(gpus), problem=problem, fix=fix, file=reading.source)])
        if size == 1:
            merged.put("parallel.data_parallel", "ddp", reading.source)
            merged.put("ddp.bucket_cap_mb", DDP_BUCKET_MIB, reading.source)
            continue
        merged.put("fsdp.shard_size", size, reading.source)
        merged.notes.append(f"fsdp.shard_size: {size}, what {replicas} replicas leave of {gpus} GPUs")


def _within_nodes(merged: Merged, gpus: int, nodes: int) -> str:
    size = merged.get("fsdp.shard_size")
    ranks = gpus // max(1, model_parallel(merged))
    if (nodes == 1 and size is None) or size == ranks or ranks == 1:
        merged.put("parallel.data_parallel", "fsdp1", merged.sources.get("parallel.data_parallel", ""))
        merged.notes.append("hybrid sharding on a single node shards over all its GPUs")
        return "fsdp1"
    return "hsdp"


def belongs(name: str, kind: str | None) -> bool:
    """Return whether an option has an effect under a kind of data parallelism; fields of no option block do.

    Parameters
    ----------
    name : str
        Dotted scenario field.
    kind : str or None

    Returns
    -------
    bool

    Examples
    --------
    >>> belongs("zero.stage3_max_live_parameters", "zero2"), belongs("training.precision", "zero2")
    (False, True)
    """
    block = name.partition(".")[0]
    if block == "ddp":
        return kind == "ddp"
    if block == "distributed_optimizer":
        return kind == "distributed_optimizer"
    if block == "zero":
        return (
            str(kind).startswith("zero")
            and (kind == "zero3" or not (name.startswith(_STAGE3) or name in (*_PLUS, "zero.offload_param")))
            and not (kind == "zero3" and name in _BELOW_STAGE3)
        )
    if block == "fsdp":
        if name in ("fsdp.backward_prefetch", "fsdp.limit_all_gathers"):
            return kind == "fsdp1"
        return kind in FSDP_KINDS and (kind == "hsdp" or name != "fsdp.shard_size")
    return True


def leave_out_defaults(merged: Merged) -> None:
    """Leave out fields that say what a scenario takes anyway, and those of a pipeline that is none.

    Examples
    --------
    >>> merged = Merged(values={"parallel.tp": 1, "parallel.pp": 1, "parallel.schedule": "1f1b"})
    >>> leave_out_defaults(merged)
    >>> merged.values
    {}
    """
    if (merged.get("parallel.pp") or 1) == 1:
        for name in ("schedule", "virtual_stages", "layers_per_stage", "pipeline_microbatches"):
            merged.put(f"parallel.{name}", None, "")
    if merged.get("parallel.pipeline_microbatches") == merged.get("training.gradient_accumulation"):
        merged.put("parallel.pipeline_microbatches", None, "")  # one run of the pipeline, as a scenario has it anyway
    if (merged.get("parallel.cp") or 1) == 1:
        merged.put("parallel.cp_comm_type", None, "")
    for name, value in _TRIVIAL.items():
        if name in merged.values and merged.values[name] == value:
            merged.put(name, None, "")


def check_gpus(gpus: int, merged: Merged, source: str) -> int:
    """Return the data-parallel ranks, or say why there is no whole number of them.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> check_gpus(8, Merged(values={"parallel.tp": 2}), "a.yaml")
    4
    """
    size = model_parallel(merged)
    if gpus % size:
        degrees: list[Any] = [merged.get(f"parallel.{axis}") or 1 for axis in ("tp", "pp", "cp")]
        problem = f"are no whole number of replicas of tp x pp x cp = {' x '.join(map(str, degrees))} = {size}"
        fix = f"use --gpus {max(1, gpus // size) * size}"
        raise ScenarioError([Issue(field="gpus", value=str(gpus), problem=problem, fix=fix, file=source)])
    return gpus // size
