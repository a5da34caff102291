"""What communication takes from a GPU while it is resident: multiprocessors and memory bandwidth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from simgpu.costs.collectives.link_bytes import load_columns
from simgpu.costs.gemm import gemm_constants
from simgpu.costs.transfers import ProgramLinks
from simgpu.hardware.gpu import Gpu
from simgpu.program import Disturbance, Link, TransferCost

# CTAs of a resident collective, one multiprocessor each: 24 channels of rings over NVLink (DGX A100, HGX H100), 16 of
# NVLS on H100; 2 to 4 per NIC where only the network is used (NVIDIA/nccl src/graph/search.cc, connect.cc)
CTAS_NVLINK: Final = 24
CTAS_NVLS: Final = 16
CTAS_NETWORK: Final = 3
CTAS_PCIE: Final = 4
# A send has a communicator of two ranks (torch.distributed isend and irecv), with two channels per NVLink of a pair,
# rounded up to a power of two and at most 32, half of them for one operation; a part is at least 64 KiB (NVIDIA/nccl
# src/graph/paths.cc, ncclTopoComputeP2pChannels; src/enqueue.cc, scheduleP2pTasksToPlan and addP2pToPlan)
P2P_CHANNELS: Final = 32
NVLINK_BYTES_PER_S: Final = 20 * 10**9  # NCCL's rate of one link, V100 to A100: NVIDIA/nccl src/graph/topo.h
P2P_PART_BYTES: Final = 64 << 10
COPY_ENGINE: Final = "copy engine"  # algorithm of transfers that no kernel runs
# Bytes of HBM traffic per byte that a link carries: 2-3, the maintainer in NVIDIA/nccl issue 1428
HBM_BYTES_PER_LINK_BYTE: Final = 2.5
# Where the library's kernels launch a block a multiprocessor (Hopper), blocks whose multiprocessors are taken wait for
# the others to end: products take twice as long beside a collective (H100 under FSDP: pytorch/pytorch issue 143988; 132
# blocks beside an all-gather of 24: 1.9 times as long, NVIDIA developer forum 337991). Seen with collectives only: the
# fewest multiprocessors that these take are NVLS's; beside messages, of 2 to 4, products lose what is taken.
SECOND_WAVE_CTAS: Final = 16
SMALLEST_SHARE: Final = 0.1  # of the bandwidth that kernels keep at the least: a guard, not a measurement


def disturbance(cost: TransferCost, links: Sequence[Link]) -> Disturbance | None:
    """Say what a transfer takes from each GPU that runs it; None when it moves nothing.

    Parameters
    ----------
    cost : TransferCost
    links : sequence of Link
        The Program's links.

    Notes
    -----
    The memory traffic is 2.5 times what the busiest link of the transfer carries at its top speed. Receives that are
    posted ahead hold their multiprocessors, up to 16 over NVLink, until the message is there.

    Examples
    --------
    >>> from simgpu.program import Load
    >>> ring = TransferCost(latency_ns=0, stream_ns=100, loads=(Load(link=0, bytes=24000),), algorithm="ring")
    >>> disturbance(ring, (Link(name="gpu0->nvswitch0", kind="nvlink", bytes_per_s=240 * 10**9),))
    Disturbance(ctas=24, hbm_bytes_per_s=600000000000)
    """
    if not cost.loads or not cost.stream_ns:
        return None
    columns = load_columns(cost.loads)
    used = links.cluster.distinct(columns[0]) if isinstance(links, ProgramLinks) else columns[0].tolist()
    kinds = {links[link].kind for link in used}
    if cost.algorithm == COPY_ENGINE:
        ctas = 0
    elif cost.algorithm in ("nvls", "nvls_tree"):
        ctas = CTAS_NVLS
    elif "nvlink" in kinds:
        ctas = _ctas_of_a_send(cost, links) if cost.algorithm == "p2p" and "network" not in kinds else CTAS_NVLINK
    else:
        ctas = CTAS_NETWORK if "network" in kinds else CTAS_PCIE
    busiest = int(columns[1].max())
    gigabytes_per_s = round(HBM_BYTES_PER_LINK_BYTE * busiest / cost.stream_ns)  # whole GB/s keep the list short
    return Disturbance(ctas=ctas, hbm_bytes_per_s=gigabytes_per_s * 10**9)


def _ctas_of_a_send(cost: TransferCost, links: Sequence[Link]) -> int:
    rate = min(links[load.link].bytes_per_s for load in cost.loads)
    channels = 1 << (2 * max(1, rate // NVLINK_BYTES_PER_S) - 1).bit_length()
    while 2 * channels > P2P_CHANNELS:
        channels //= 2
    parts = -(-max(load.bytes for load in cost.loads) // P2P_PART_BYTES)
    return min(channels, parts)


@lru_cache(maxsize=4096)
def disturbed_gpu(gpu: Gpu, taken: Disturbance) -> Gpu:
    """Return the device that is left to kernels: fewer multiprocessors at the same rate each, less bandwidth.

    Matrix products of persistent kernels go through in ``ceil(SM / (SM - CTAs))`` waves beside a collective.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> h100 = gpu("H100-SXM5-80GB")
    >>> [round(disturbed_gpu(h100, Disturbance(ctas=n, hbm_bytes_per_s=0)).gemm_tflops / h100.gemm_tflops, 2)
    ...  for n in (3, 24)]
    [0.98, 0.5]
    >>> left = disturbed_gpu(gpu("A100-SXM4-80GB"), Disturbance(ctas=24, hbm_bytes_per_s=600 * 10**9))
    >>> left.sm_count, round(left.gemm_tflops), round(left.memory_gb_per_s)
    (84, 198, 1439)
    """
    share = max(1, gpu.sm_count - taken.ctas) / gpu.sm_count
    products = share
    if taken.ctas >= SECOND_WAVE_CTAS and gemm_constants(gpu).persistent:
        products = 1 / math.ceil(1 / share)
    bandwidth = max(SMALLEST_SHARE * gpu.memory_gb_per_s, gpu.memory_gb_per_s - taken.hbm_bytes_per_s / 1e9)
    return replace(
        gpu,
        sm_count=max(1, gpu.sm_count - taken.ctas),
        gemm_tflops=gpu.gemm_tflops * products,
        fp16_tflops=gpu.fp16_tflops * share,
        bf16_tflops=None if gpu.bf16_tflops is None else gpu.bf16_tflops * share,
        tf32_tflops=None if gpu.tf32_tflops is None else gpu.tf32_tflops * share,
        fp8_tflops=None if gpu.fp8_tflops is None else gpu.fp8_tflops * share,
        fp32_tflops=gpu.fp32_tflops * share,
        fp8_gemm_tflops=None if gpu.fp8_gemm_tflops is None else gpu.fp8_gemm_tflops * products,
        memory_gb_per_s=bandwidth,
    )
