"""Price every transfer that the roles of a group's members ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.costs.host_copy import HOST_KINDS, host_transfer
from simgpu.costs.interference import COPY_ENGINE, disturbance
from simgpu.costs.send_ring import ring_of_sends
from simgpu.costs.transfers import collective, point_to_point
from simgpu.hardware.cluster import Cluster
from simgpu.program import Collective, Disturbance, Group, Link, Rank, Recv, Role, Send, TransferCost, TransferKey

FREE = TransferCost(latency_ns=0, stream_ns=0, algorithm="free", source="free")


def price_transfers(
    cluster: Cluster,
    roles: Sequence[Role],
    ranks: Sequence[Rank],
    groups: Sequence[Group],
    *,
    free: bool,
    nccl: NcclSettings = CURRENT,
) -> dict[tuple[int, TransferKey], TransferCost]:
    """Cost of each distinct transfer of each group.

    Parameters
    ----------
    free : bool
        Communication costs nothing (``network: free``).
    nccl : NcclSettings
        Version and settings of NCCL.
    """
    wanted = [_keys(role) for role in roles]
    prices = {}
    for index, group in enumerate(groups):
        keys = dict.fromkeys(
            key for member in group.members for key in wanted[ranks[member].role].get(group.communicator, ())
        )
        for key in keys:
            prices[index, key] = _alone(cluster, group, key) if free else _price(cluster, group, key, nccl)
    return prices


def _alone(cluster: Cluster, group: Group, key: TransferKey) -> TransferCost:
    """Price a transfer where communication is free: work with the host is not, but nothing shares its links."""
    if key.kind not in HOST_KINDS:
        return FREE
    return replace(host_transfer(cluster, group.members[0], key.kind, key.bytes), loads=())


def mark_disturbances(
    transfers: Mapping[tuple[int, TransferKey], TransferCost], links: tuple[Link, ...]
) -> tuple[tuple[Disturbance, ...], dict[tuple[int, TransferKey], TransferCost]]:
    """List what the transfers take from their GPUs, worst last, and tell each transfer its places in the list.

    Copies to and from the host take next to nothing: copy engines run them.
    """
    taken = {
        (group, key): None if key.kind in HOST_KINDS else disturbance(cost, links)
        for (group, key), cost in transfers.items()
    }
    moving = {found for found in taken.values() if found is not None}
    listed = tuple(sorted(moving | {_spinning(found) for found in moving}))
    place: dict[Disturbance | None, int] = {found: index for index, found in enumerate(listed)}
    place[None] = -1
    return listed, {
        name: replace(cost, disturbance=place[found], spinning=-1 if found is None else place[_spinning(found)])
        for (name, cost), found in zip(transfers.items(), taken.values(), strict=True)
    }


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
    found: dict[str, dict[TransferKey, None]] = {}
    for communicator, key in _transfers(role):
        found.setdefault(communicator, {})[key] = None
    return found


def _transfers(role: Role) -> Iterator[tuple[str, TransferKey]]:
    for instructions in role.streams.values():
        for item in instructions:
            if isinstance(item, Collective):
                yield item.communicator, TransferKey(kind=item.kind, bytes=item.bytes)
            elif isinstance(item, Send | Recv):
                own = role.position[item.communicator]
                source, target = (own, item.peer) if isinstance(item, Send) else (item.peer, own)
                yield (
                    item.communicator,
                    TransferKey(kind="send_recv", bytes=item.bytes, source=source, target=target),
                )
