"""Links that are slower than they should be, or not there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.hardware.cluster import Cluster
from simgpu.hardware.link import Link
from simgpu.hardware.paths import MachinePaths, OddNode
from simgpu.hardware.reach import check_reach, nearest_nics
from simgpu.hardware.reading import Reading
from simgpu.hardware.table import suggestion

_BOTH_WAYS: Final = "<->"
_ONE_WAY: Final = "->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disorder:
    """Some links of a cluster and what is left of their bandwidth.

    Parameters
    ----------
    link : str
        Name of a link as reports and ``simgpu topology show`` give it, ``node0/nic2->pod0/leaf2``, or with ``<->`` for
        both directions; ``*`` and ``?`` stand for any text and any character.
    share : float
        Of its bandwidth, 0 to 1; at 0 the link is absent, in both directions, and data goes another way.
    """

    link: str
    share: float


def disordered(cluster: Cluster, disorders: Sequence[Disorder], field: str = "links") -> Cluster:
    """Make a cluster whose links are out of order.

    Parameters
    ----------
    cluster : Cluster
    disorders : sequence of Disorder
        The shares of a link that several name multiply.
    field : str
        What messages call the list.

    Returns
    -------
    Cluster
        Links keep their positions.

    Raises
    ------
    ScenarioError
        With an issue for every name that no link has and every GPU that is cut off.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> whole = build_cluster(pair, nodes=1, gpus=None)
    >>> [link.bytes_per_s // 10**9 for link in disordered(whole, [Disorder(link="node0/gpu0->gpu1", share=0.5)]).links]
    [24, 48]
    """
    if not disorders:
        return cluster
    shares = _shares(cluster, disorders, field)
    absent = frozenset(link for link, share in shares.items() if share == 0)
    links = list(cluster.links)
    for link, share in shares.items():
        if share > 0:
            links[link] = replace(links[link], bytes_per_s=max(1, math.floor(links[link].bytes_per_s * share)))
    odd = _odd_nodes(cluster, absent, field)
    trunks = replace(cluster._trunks, absent=frozenset(link for link in absent if link >= cluster._trunks.first))
    return replace(cluster, links=tuple(links), memo={}, _trunks=trunks, _odd_nodes=odd, _graph=[])


def _shares(cluster: Cluster, disorders: Sequence[Disorder], field: str) -> dict[int, float]:
    """Find what is left of each link that is named; an absent link is absent both ways."""
    issues: list[Issue] = []
    shares: dict[int, float] = {}
    named = [_names(link) for link in cluster.links]
    back = {names[0]: index for index, names in enumerate(named)}
    for place, disorder in enumerate(disorders):
        pattern = disorder.link.replace(" ", "")
        both = _BOTH_WAYS in pattern  # else '*' before '->' would take the '<' as well
        found = [
            index
            for index, names in enumerate(named)
            if any(fnmatchcase(name, pattern) for name in names if both == (_BOTH_WAYS in name))
        ]
        if not found:
            allowed = f"names such as {cluster.links[0].name} or, both ways, {named[0][1]}; * stands for any text"
            near = suggestion(disorder.link, [name for names in named for name in names])
            problem = f"no link of {cluster.name} has this name"
            issues.append(
                Issue(field=f"{field}[{place}].link", value=disorder.link, problem=problem, allowed=allowed, fix=near)
            )
        for index in found:
            shares[index] = shares.get(index, 1.0) * disorder.share
            if disorder.share == 0:
                link = cluster.links[index]
                shares[back[f"{link.target}{_ONE_WAY}{link.source}"]] = 0.0
    if issues:
        raise ScenarioError(issues)
    return shares


def _names(link: Link) -> tuple[str, ...]:
    """List what a link may be called: in full, both ways from either end, and with the node said once."""
    a, b = link.source, link.target
    full = (f"{a}{_ONE_WAY}{b}", f"{a}{_BOTH_WAYS}{b}", f"{b}{_BOTH_WAYS}{a}")
    node, slash, device = b.partition("/")
    if not slash or not a.startswith(f"{node}/"):
        return full
    own = a.removeprefix(f"{node}/")
    return (*full, link.name, f"{a}{_BOTH_WAYS}{device}", f"{b}{_BOTH_WAYS}{own}")


def _odd_nodes(cluster: Cluster, absent: frozenset[int], field: str) -> Mapping[int, OddNode]:
    """Paths of the nodes that lack something."""
    machine, wires = cluster.machine, len(cluster.machine.wires)
    lacking: dict[int, set[int]] = {}
    for link in absent:
        if link < cluster.nodes * cluster.links_per_node:
            lacking.setdefault(link // cluster.links_per_node, set()).add(link % cluster.links_per_node)
    found, issues = {}, []
    for node, places in sorted(lacking.items()):
        paths = MachinePaths(
            machine=machine,
            absent=frozenset(place for place in places if place < wires),
            cut_nics=frozenset((place - wires) // 2 for place in places if place >= wires),
        )
        nics = nearest_nics(machine, paths) if cluster.nodes > 1 else ()
        reading = Reading(source="")
        check_reach(machine, paths, cluster.gpus_per_node, nics if cluster.nodes > 1 else None, reading)
        issues += [
            Issue(field=field, problem=f"without these links {issue.problem} on node {node}", fix="leave one of them")
            for issue in reading.issues
        ]
        found[node] = OddNode(paths=paths, nic_of_gpu=nics)
    if issues:
        raise ScenarioError(issues)
    return found
