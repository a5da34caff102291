"""NCCL's double binary tree: two trees over the same nodes, the leaves of one inside the other."""

from __future__ import annotations


def parents(nodes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Parent of each node in the first and in the second tree, -1 for a root.

    In each tree about half of the nodes are leaves; the second is the first mirrored (of an even number) or shifted by
    one (odd), so that a leaf of one has children in the other and both together load all nodes alike.

    Parameters
    ----------
    nodes : int

    Returns
    -------
    tuple of int, tuple of int

    Notes
    -----
    NVIDIA/nccl src/graph/trees.cc: a node's lowest set bit is its height; its parent has the next bit set instead.

    Examples
    --------
    >>> parents(4)
    ((-1, 2, 0, 2), (1, 3, 1, -1))
    >>> parents(3)
    ((-1, 2, 0), (1, -1, 0))
    """
    first = tuple(_parent(node, nodes) for node in range(nodes))
    if nodes % 2:
        second = tuple(
            -1 if first[(node - 1) % nodes] < 0 else (first[(node - 1) % nodes] + 1) % nodes for node in range(nodes)
        )
    else:
        second = tuple(-1 if up < 0 else nodes - 1 - up for up in reversed(first))
    return first, second


def _parent(node: int, nodes: int) -> int:
    if node == 0:
        return -1
    bit = node & -node
    up = (node ^ bit) | (bit << 1)
    return up if up < nodes else node ^ bit
