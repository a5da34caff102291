"""Which algorithm and protocol a collective runs; a new algorithm is one more entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from simgpu.costs.collectives.collnet import collnet_chain, collnet_direct
from simgpu.costs.collectives.constants import constants
from simgpu.costs.collectives.graph import Graph, graph_of
from simgpu.costs.collectives.hierarchical import STEPS, hierarchical
from simgpu.costs.collectives.nvls import nvls, nvls_tree
from simgpu.costs.collectives.pairwise import hierarchical_all_to_all, pairwise_all_to_all
from simgpu.costs.collectives.request import Request
from simgpu.costs.collectives.ring import ring
from simgpu.costs.collectives.rooted import scatter_gather
from simgpu.costs.collectives.settings import NcclSettings
from simgpu.costs.collectives.shape import shape_of
from simgpu.costs.collectives.tree import tree
from simgpu.costs.collectives.tuning import Candidate, candidates, fastest
from simgpu.errors import TopologyError
from simgpu.hardware.cluster import Cluster
from simgpu.program import Load, TransferCost

Algorithm = Callable[[Cluster, tuple[int, ...], str, int, Request], TransferCost]

_MOST_POWERS = 63  # sizes up to 2**62 bytes have a choice of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is run from a size on.

    Parameters
    ----------
    first_bytes : int
    algorithm : str
        A key of `ALGORITHMS`.
    chosen : Candidate or None
        The protocol; None for what NCCL does not tune.
    """

    first_bytes: int
    algorithm: str
    chosen: Candidate | None


def choices(cluster: Cluster, members: tuple[int, ...], kind: str, nccl: NcclSettings) -> tuple[Choice, ...]:
    """List what NCCL runs, by size.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Two ranks or more.
    kind : str
    nccl : NcclSettings

    Returns
    -------
    tuple of Choice
        Ascending. Between powers of two that choose differently one change is found; NCCL's model may know more.

    Raises
    ------
    TopologyError
        When the group cannot run what the settings force.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> box = {"name": "box", "devices": {"gpu": {"kind": "gpu", "count": 8, "model": "H200-SXM5-141GB"},
    ...                                    "nvswitch": {"kind": "nvswitch"}},
    ...        "links": [{"from": "gpu", "to": "nvswitch", "type": "NVLink4 link (H100/H200)", "count": 18}]}
    >>> for choice in choices(build_cluster(box, nodes=1, gpus=None), tuple(range(8)), "all_reduce", NcclSettings()):
    ...     print(choice.first_bytes, choice.algorithm, choice.chosen.protocol)
    1 ring LL
    1144836 nvls Simple
    """
    ordered = tuple(sorted(members))
    key = ("choices", ordered, kind, nccl)
    found: tuple[Choice, ...] | None = cluster.memo.get(key)
    if found is None:
        found = cluster.memo[key] = _choose(cluster, ordered, kind, nccl)
    return found


def price(
    cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, nccl: NcclSettings, measured: bool
) -> TransferCost:
    """Price a collective of at least two members and one byte, by the algorithm that NCCL runs.

    NCCL sometimes changes to an algorithm that is faster than the one before; a size is never priced below a smaller
    one, so that more bytes are never faster.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
    kind : str
    bytes : int
    nccl : NcclSettings
    measured : bool
        Whether measured rows may give the time.

    Returns
    -------
    TransferCost

    Raises
    ------
    TopologyError
        When the group cannot run what the settings force, or members cannot reach each other.
    """
    node, last = cluster.node_of(min(members)), cluster.node_of(max(members))
    # Groups that lie alike in their node cost the same: one is priced in node 0 and moved.
    node = node if node == last and cluster.like_first(node) else 0
    first = tuple(rank - node * cluster.gpus_per_node for rank in members) if node else members
    key = ("price", first, kind, bytes, nccl, measured)
    found: TransferCost | None = cluster.memo.get(key)
    if found is None:
        found = cluster.memo[key] = _price(cluster, first, kind, bytes, nccl, measured)
    return _moved(cluster, found, node)


def _price(
    cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, nccl: NcclSettings, measured: bool
) -> TransferCost:
    listed = choices(cluster, members, kind, nccl)
    # Measured rows hold whatever NCCL chose at each size by itself.
    free = not nccl.proto and (not nccl.algo or _chosen_freely(cluster, members, kind, nccl))
    measured = measured and free
    cost = None
    floor_ns = 0
    for index, choice in enumerate(listed):
        last = index + 1 == len(listed) or bytes < listed[index + 1].first_bytes
        size = bytes if last else listed[index + 1].first_bytes - 1
        cost = _priced(cluster, members, kind, size, choice, nccl, measured)
        if last:
            break
        floor_ns = max(floor_ns, cost.latency_ns + cost.stream_ns)
    if cost is None:  # pragma: no cover (there is always a first choice)
        raise TopologyError(f"{cluster.name}: {kind} of ranks {members} has no algorithm")
    return replace(cost, latency_ns=max(cost.latency_ns, floor_ns - cost.stream_ns))


def _moved(cluster: Cluster, cost: TransferCost, node: int) -> TransferCost:
    """Take a price from node 0 to another."""
    if node == 0:
        return cost
    first = node * cluster.links_per_node
    return replace(
        cost,
        loads=tuple(Load(link=load.link + first, bytes=load.bytes) for load in cost.loads),
        bottleneck=cost.bottleneck.replace("node0/", f"node{node}/"),
    )


def _chosen_freely(cluster: Cluster, members: tuple[int, ...], kind: str, nccl: NcclSettings) -> bool:
    listed = choices(cluster, members, kind, replace(nccl, algo=""))
    return {choice.algorithm for choice in listed} == {nccl.algo}


def _priced(
    cluster: Cluster,
    members: tuple[int, ...],
    kind: str,
    bytes: int,
    choice: Choice,
    nccl: NcclSettings,
    measured: bool,
) -> TransferCost:
    key = ("priced", members, kind, bytes, choice.algorithm, choice.chosen, measured)
    found: TransferCost | None = cluster.memo.get(key)
    if found is None:
        request = Request(chosen=choice.chosen, nccl=nccl, measured=measured)
        found = cluster.memo[key] = ALGORITHMS[choice.algorithm](cluster, members, kind, bytes, request)
    return found


def _choose(cluster: Cluster, members: tuple[int, ...], kind: str, nccl: NcclSettings) -> tuple[Choice, ...]:
    graph = graph_of(cluster, members)
    if shape_of(kind).pairs or nccl.algo in ("hierarchical", "pairwise"):
        return (Choice(first_bytes=1, algorithm=_untuned(cluster, graph, kind, nccl), chosen=None),)
    all_of_them = candidates(graph, kind, nccl)
    found = tuple(
        candidate
        for candidate in all_of_them
        if nccl.algo in ("", candidate.algorithm) and nccl.proto in ("", candidate.protocol)
    )
    if not found:
        asked = " with ".join(filter(None, (nccl.algo, nccl.proto)))
        have = ", ".join(dict.fromkeys(f"{candidate.algorithm} {candidate.protocol}" for candidate in all_of_them))
        raise TopologyError(
            f"{cluster.name}: {kind} of {graph.n} ranks on {graph.nodes} node{'s' if graph.nodes > 1 else ''} cannot "
            f"run {asked}{_why(graph, kind, nccl)}; it can run {have}"
        )
    return _changes(found, nccl.number)


@lru_cache(maxsize=256)
def _changes(found: tuple[Candidate, ...], version: tuple[int, int]) -> tuple[Choice, ...]:
    """List which candidate is fastest, by size; groups that look alike to NCCL have the same ones."""
    table = constants(version)
    before = fastest(found, 1, table)
    listed = [Choice(first_bytes=1, algorithm=before.algorithm, chosen=before)]
    for power in range(1, _MOST_POWERS):
        low, high = 1 << (power - 1), 1 << power
        best = fastest(found, high, table)
        if best == before:
            continue
        while high - low > 1:  # the first size that no longer chooses as the power below
            middle = (low + high) // 2
            now = fastest(found, middle, table)
            low, high, best = (middle, high, best) if now == before else (low, middle, now)
        listed.append(Choice(first_bytes=high, algorithm=best.algorithm, chosen=best))
        before = best
        if (after := fastest(found, 1 << power, table)) != before:
            listed.append(Choice(first_bytes=1 << power, algorithm=after.algorithm, chosen=after))
            before = after
    return tuple(listed)


def _why(graph: Graph, kind: str, nccl: NcclSettings) -> str:
    number = ".".join(map(str, nccl.number))
    if nccl.algo.startswith("collnet") and not graph.sharp:
        return " (its network has no SHARP)"
    if nccl.algo in ("tree", "nvls_tree", "collnet_direct", "collnet_chain") and kind != "all_reduce":
        return " (it is for all_reduce alone)"
    if nccl.algo in ("nvls", "nvls_tree"):
        if graph.nodes == 1 and nccl.algo == "nvls_tree":
            return " (it is for several nodes)"
        if not graph.nvls_gb_per_s:
            return " (NCCL uses it from 5 Hopper or 6 Blackwell GPUs on one NVSwitch)"
        return f" in NCCL {number}" if graph.nodes == 1 else " (its network has no SHARP)"
    if nccl.proto == "LL128" and graph.hardware != "NVLINK":
        return " (LL128 needs NVLink within nodes)"
    return ""


def _untuned(cluster: Cluster, graph: Graph, kind: str, nccl: NcclSettings) -> str:
    """Algorithm of what NCCL's model does not cover."""
    possible: tuple[str, ...]
    if kind in ("scatter", "gather"):
        possible = ("rooted",)
    elif kind == "all_to_all":
        possible = ("pairwise", *(("hierarchical all_to_all",) if graph.nodes > 1 and graph.even else ()))
    else:
        possible = ("hierarchical",) if kind in STEPS and graph.nodes > 1 and graph.even else ()
    wanted = {
        "hierarchical": possible[-1] if possible and "hierarchical" in possible[-1] else "",
        "pairwise": "pairwise",
    }
    chosen = wanted.get(nccl.algo, possible[0] if possible else "")
    if chosen not in possible or (shape_of(kind).pairs and nccl.algo and not wanted.get(nccl.algo)):
        allowed = ", ".join(name.split()[0] for name in possible) or "nothing but what NCCL tunes"
        raise TopologyError(
            f"{cluster.name}: {kind} of {graph.n} ranks on {graph.nodes} node{'s' if graph.nodes > 1 else ''} cannot "
            f"run {nccl.algo}; it can run {allowed}"
            + ("; hierarchical needs several nodes with as many members each" if nccl.algo == "hierarchical" else "")
        )
    return chosen


def _hierarchical(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request) -> TransferCost:
    level = partial(price, nccl=replace(request.nccl, algo=""), measured=request.measured)
    return hierarchical(cluster, members, kind, bytes, request, level)


ALGORITHMS: Mapping[str, Algorithm] = {
    "ring": ring,
    "tree": tree,
    "nvls": nvls,
    "nvls_tree": nvls_tree,
    "collnet_direct": collnet_direct,
    "collnet_chain": collnet_chain,
    "hierarchical": _hierarchical,
    "pairwise": pairwise_all_to_all,
    "hierarchical all_to_all": hierarchical_all_to_all,
    "rooted": scatter_gather,
}
"""By SimGPU's name, as `TransferCost.algorithm` has it."""
