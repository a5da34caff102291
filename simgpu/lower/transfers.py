"""Price every transfer that the roles of a group's members ask for."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.costs.host_copy import HOST_KINDS, host_transfer
from simgpu.costs.interference import COPY_ENGINE, disturbance
from simgpu.costs.send_ring import ring_of_sends
from simgpu.costs.transfers import collective, point_to_point
from simgpu.hardware.cluster import Cluster
from simgpu.lower.laid_out import roles_of, tables_of
from simgpu.lower.placed import Place, PlacedTransfers, Signature, alike_groups, link_table, places_of
from simgpu.program import Collective, Disturbance, Group, Link, Rank, Recv, Role, Send, TransferCost, TransferKey
from simgpu.script import distinct

_TRANSFERS = (Collective, Send, Recv)
FREE = TransferCost(latency_ns=0, stream_ns=0, algorithm="free", source="free")


def price_transfers(
    cluster: Cluster,
    roles: Sequence[Role],
    ranks: Sequence[Rank],
    groups: Sequence[Group],
    *,
    free: bool,
    nccl: NcclSettings = CURRENT,
) -> PlacedTransfers:
    """Cost of each distinct transfer of each group; groups that lie alike are priced once.

    Parameters
    ----------
    free : bool
        Communication costs nothing (``network: free``).
    nccl : NcclSettings
        Version and settings of NCCL.
    """
    wanted = [_keys(role) for role in roles]
    role_of = roles_of(ranks)
    alike: dict[tuple[str, tuple[int, ...], Signature], tuple[list[int], list[Place]]] = {}
    priced: dict[Signature, tuple[int, Place]] = {}  # one group of each place
    first = 0
    for communicator, table in tables_of(groups):
        places = [Place(signature=())] * len(table) if free else places_of(cluster, table, first)
        for index, (played, place) in enumerate(zip(_played(role_of[table]), places, strict=True), start=first):
            found = alike.setdefault((communicator, played, place.signature), ([], []))
            priced.setdefault(place.signature, (index, place))
            found[0].append(index)
            found[1].append(place)
        first += len(table)
    kinds = []
    known: dict[tuple[Signature, TransferKey], TransferCost] = {}
    tables: dict[Hashable, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    for (communicator, played, signature), (indices, places) in alike.items():
        one, where = priced[signature]
        group = groups[one]
        keys = dict.fromkeys(key for role in played for key in wanted[role].get(communicator, ()))
        for key in keys:
            if (signature, key) not in known:
                known[signature, key] = _alone(cluster, group, key) if free else _price(cluster, group, key, nccl)
        costs = {key: known[signature, key] for key in keys}
        same = signature, tuple(keys)
        if same not in tables:
            tables[same] = link_table(costs)
        kinds.append(alike_groups(cluster, where, places, indices, costs, tables[same]))
    return PlacedTransfers(cluster=cluster, kinds=tuple(kinds))


def _played(roles: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Return the distinct roles of each group's members, in the order of the members."""
    if (roles == roles[:, :1]).all():
        return [(role,) for role in roles[:, 0].tolist()]
    if (roles == roles[:1]).all():
        return [tuple(dict.fromkeys(roles[0].tolist()))] * len(roles)
    return [tuple(dict.fromkeys(row)) for row in roles.tolist()]


def _alone(cluster: Cluster, group: Group, key: TransferKey) -> TransferCost:
    """Price a transfer where communication is free: work with the host is not, but nothing shares its links."""
    if key.kind not in HOST_KINDS:
        return FREE
    return replace(host_transfer(cluster, group.members[0], key.kind, key.bytes), loads=())


def with_messages_of(transfers: PlacedTransfers, message_ns: int) -> PlacedTransfers:
    """Return the transfers with a given time for every message from stage to stage, which then shares no link.

    Parameters
    ----------
    transfers : PlacedTransfers
    message_ns : int, nanoseconds
    """
    given = TransferCost(latency_ns=message_ns, stream_ns=0, algorithm="given", source="given")
    return transfers.changed(
        {
            place: {key: given if key.source >= 0 else cost for key, cost in kind.costs.items()}
            for place, kind in enumerate(transfers.kinds)
        }
    )


def mark_disturbances(
    transfers: PlacedTransfers, links: Sequence[Link]
) -> tuple[tuple[Disturbance, ...], PlacedTransfers]:
    """List what the transfers take from their GPUs, worst last, and tell each transfer its places in the list.

    Copies to and from the host take next to nothing: copy engines run them.
    """
    known: dict[tuple[int, int, str], Disturbance | None] = {}  # alike groups share their loads

    def taken_by(key: TransferKey, cost: TransferCost) -> Disturbance | None:
        if key.kind in HOST_KINDS:
            return None
        same = (id(cost.loads), cost.stream_ns, cost.algorithm)
        if same not in known:
            known[same] = disturbance(cost, links)
        return known[same]

    taken = [{key: taken_by(key, cost) for key, cost in kind.costs.items()} for kind in transfers.kinds]
    moving = {found for kind in taken for found in kind.values() if found is not None}
    listed = tuple(sorted(moving | {_spinning(found) for found in moving}))
    place: dict[Disturbance | None, int] = {found: index for index, found in enumerate(listed)}
    place[None] = -1
    marked = {
        number: {
            key: replace(cost, disturbance=place[found], spinning=-1 if found is None else place[_spinning(found)])
            for (key, cost), found in zip(kind.costs.items(), taken[number].values(), strict=True)
        }
        for number, kind in enumerate(transfers.kinds)
    }
    return listed, transfers.changed(marked)


def _spinning(moving: Disturbance) -> Disturbance:
    return replace(moving, hbm_bytes_per_s=0)


def _price(cluster: Cluster, group: Group, key: TransferKey, nccl: NcclSettings) -> TransferCost:
    if key.kind in HOST_KINDS:
        return host_transfer(cluster, group.members[0], key.kind, key.bytes)
    if key.source >= 0:
        return point_to_point(cluster, group.members[key.source], group.members[key.target], key.bytes, nccl)
    if key.kind in ("send_ring", "copy_ring"):
        ring = ring_of_sends(cluster, group.members, key.bytes, nccl)
        return replace(ring, algorithm=COPY_ENGINE) if key.kind == "copy_ring" else ring
    return collective(cluster, group.members, key.kind, key.bytes, nccl)


def _keys(role: Role) -> Mapping[str, dict[TransferKey, None]]:
    """Return the transfers that a role takes part in, by communicator."""
    found: dict[str, dict[TransferKey, None]] = {}
    for communicator, kind, size, source, target in dict.fromkeys(_transfers(role)):
        key = TransferKey(kind=kind, bytes=size, source=source, target=target)
        found.setdefault(communicator, {})[key] = None
    return found


def _transfers(role: Role) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield communicator, kind, bytes, source and target of every transfer; no ends are named of a collective."""
    for instructions in role.streams.values():
        for item in distinct(instructions):
            if not isinstance(item, _TRANSFERS):  # most are none
                continue
            if isinstance(item, Collective):
                yield item.communicator, item.kind, item.bytes, -1, -1
            else:
                own = role.position[item.communicator]
                source, target = (own, item.peer) if isinstance(item, Send) else (item.peer, own)
                yield item.communicator, "send_recv", item.bytes, source, target
