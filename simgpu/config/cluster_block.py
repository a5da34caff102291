"""The ``cluster`` block: which machines, how many, and what joins them."""

from __future__ import annotations

from typing import Annotated, Literal

from simgpu.config.block import Block
from simgpu.config.quantity import ANY_CASE, Count, Flag, Gpus, Integer, Nodes, Ratio, Text


class FabricBlock(Block):
    """The network between nodes."""

    kind: Annotated[Literal["rail", "fat_tree"], ANY_CASE] | None = None
    """`rail`: NIC i of every node meets in one leaf switch; `fat_tree`: all NICs of a node share a leaf."""
    oversubscription: Ratio | None = None
    """Bandwidth into a leaf over bandwidth out of it; 1 is non-blocking."""
    nodes_per_leaf: Count | None = None
    """Nodes that share one leaf switch; with rails, the nodes of one pod."""
    link: Text | None = None
    """Type of the NICs' ports, such as 'IB NDR 400G', where it differs from the topology's."""
    sharp: Flag | None = None
    """The switches add up in the network (InfiniBand SHARP)."""
    routing: Annotated[Literal["spray", "ecmp"], ANY_CASE] | None = None
    """`spray`: traffic spreads evenly over the uplinks of a leaf; `ecmp`: each queue pair is hashed on one of them."""
    queue_pairs: Count | None = None
    """Under `ecmp`, queue pairs between two NICs: NCCL's channels on the NIC x NCCL_IB_QPS_PER_CONNECTION."""
    hash_seed: Integer | None = None
    """Under `ecmp`, which of the possible placements of the flows."""


class ClusterBlock(Block):
    """Which machines, how many, and what joins them."""

    topology: Text
    """Bundled name (dgx-a100, dgx-h100, ...) or path of a topology file, relative to this scenario."""
    nodes: Nodes = 1
    """Machines."""
    gpus: Gpus | None = None
    """GPUs in all; every GPU of every node when left out."""
    fabric: FabricBlock | None = None
    """The network between nodes, where it differs from the topology's own."""
