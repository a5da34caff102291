"""Measured copies between GPUs and their host (nvbandwidth), laid over a cluster's links."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from simgpu.config.gpu_name import gpus_named
from simgpu.costs.host_copy import copy_rate
from simgpu.hardware.cluster import Cluster
from simgpu.hardware.rewired import rewired
from simgpu.io.nvbandwidth import TO_GPU, TO_HOST, HostCopyRates

_DIRECTIONS: Final = (
    (TO_GPU, "to_gpu_gb_per_s", "to a GPU", False),
    (TO_HOST, "to_host_gb_per_s", "to the host", True),
)


def measured_host(cluster: Cluster, measured: Sequence[HostCopyRates]) -> tuple[Cluster, tuple[str, ...]]:
    """Give the links between GPUs and host memory the rates at which copies were measured.

    Parameters
    ----------
    cluster : Cluster
    measured : sequence of HostCopyRates
        Of several files the last that measured a direction counts.

    Returns
    -------
    cluster : Cluster
    notes : tuple of str
        Which figures were taken, and what of the files has no effect.

    Notes
    -----
    A step waits for the slowest copy, and alike GPUs are simulated once: every GPU gets the rate of the slowest. Its
    own link gets exactly this rate; links farther on the way, which several GPUs may share, get it where the table of
    links has less, because one copy reached it. PCIe links carry NCCL's traffic at the share of the copies' rate that
    `simgpu.costs.host_copy` has for their generation, so that goes up or down with it.

    Examples
    --------
    >>> from simgpu.config.cluster_request import ClusterRequest, request_cluster
    >>> from simgpu.costs.host_copy import host_transfer
    >>> rates = HostCopyRates(source="nvbandwidth.log", gpus=(), to_gpu_gb_per_s=(20.0, 16.0), to_host_gb_per_s=(),
    ...                       others=())
    >>> cluster, notes = measured_host(request_cluster(ClusterRequest(topology="dgx-a100")), [rates])
    >>> [host_transfer(cluster, 7, kind, 16 * 10**9).stream_ns for kind in ("h2d", "d2h")]
    [1000000000, 640000000]
    >>> notes[0]
    'nvbandwidth.log: copies to a GPU at 16 GB/s, the slowest of 2 GPUs (16 to 20; host_to_device_memcpy_ce)'
    """
    notes: list[str] = []
    for rates in measured:
        for test, field, towards, to_host in _DIRECTIONS:
            found: tuple[float, ...] = getattr(rates, field)
            if not found:
                notes.append(f"{rates.source}: copies {towards} were not measured ({test}), and are the model's")
                continue
            slowest = min(found)
            cluster = _with_rate(cluster, slowest * 1e9, to_host=to_host)
            spread = f", the slowest of {len(found)} GPUs ({slowest:g} to {max(found):g}; {test})"
            notes.append(
                f"{rates.source}: copies {towards} at {slowest:g} GB/s{spread if len(found) > 1 else f' ({test})'}"
            )
        if rates.others:
            notes.append(f"{rates.source}: {', '.join(rates.others)} are known and without effect")
        notes += _other_gpu(cluster, rates)
    return cluster, tuple(notes)


def _with_rate(cluster: Cluster, copy_bytes_per_s: float, *, to_host: bool) -> Cluster:
    """Set one direction of every GPU of the machine."""
    wires = cluster.machine.wires
    rates: dict[int, int] = {}
    own: dict[int, int] = {}
    paths = cluster.paths_on(0)
    for gpu in range(len(cluster.machine.gpus)):
        path = paths.gpu_to_memory(gpu) if to_host else paths.memory_to_gpu(gpu)
        if path is None:
            continue
        first, *others = path.wires if to_host else reversed(path.wires)
        for place in (first, *others):
            link = cluster.links[place]
            rate = math.ceil(link.bytes_per_s * copy_bytes_per_s / copy_rate(link))
            if place == first:
                own[place] = rate
            elif rate > wires[place].bytes_per_s:
                rates[place] = rate
    return rewired(cluster, rates | own)


def _other_gpu(cluster: Cluster, rates: HostCopyRates) -> Iterator[str]:
    model = cluster.gpu(0).name
    strange = [name for name in dict.fromkeys(rates.gpus) if model not in gpus_named(name)]
    if strange:
        yield f"{rates.source}: was measured on {', '.join(strange)}, and {cluster.name} has {model}"
