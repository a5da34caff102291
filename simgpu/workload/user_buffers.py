"""Tensor-parallel exchanges in chunks beside the GEMMs they belong to: Transformer Engine's user buffers.

====================================== ===============================================================
GEMM                                   exchange
====================================== ===============================================================
column-parallel forward                all-gather of its input as tp - 1 sends round a ring, one under each of tp parts
row-parallel forward                   reduce-scatter of each of 4 parts of its output under the next part
row-parallel input gradient            all-gather of the output's gradient, as for column-parallel forward
column-parallel backward               whole exchanges beside whole GEMMs, as without user buffers
====================================== ===============================================================

The last part's reduce-scatter has nothing to hide under. Ring sends go by copy engines, which hold no multiprocessors.
Source: NVIDIA/TransformerEngine transformer_engine/pytorch/module/base.py, initialize_ub (methods and splits), and
common/comm_gemm_overlap/comm_gemm_overlap.cpp.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simgpu.workload.op import Gemm
from simgpu.workload.unit import Exchange, Join, PassItem

PIPELINE_PARTS: Final = 4  # num_splits of the method "pipeline"


def gathered_product(product: Gemm, ways: int, payload_bytes: int, tag: str) -> tuple[PassItem, ...]:
    """Return a GEMM over rows that come in from the other ranks, part by part.

    Parameters
    ----------
    product : Gemm
        Over the rows of all ranks.
    ways : int
        Ranks; each holds 1/ways of the rows.
    payload_bytes : int
        Of all rows.
    tag : str
        Of the exchange; unique within the pass.

    Examples
    --------
    >>> items = gathered_product(Gemm(name="up", m=8, n=2, k=2), 4, 32, "up.gather")
    >>> [getattr(item, "name", None) or item.tag for item in items][:4]
    ['up.gather0', 'up.part0', 'up.gather0', 'up.gather1']
    >>> sum(item.flops for item in items if isinstance(item, Gemm)), sum(getattr(i, "bytes", 0) for i in items
    ...     if isinstance(i, Exchange))
    (64, 24)
    """
    items: list[PassItem] = []
    for part in range(ways):
        sent = Exchange(kind="copy_ring", bytes=payload_bytes // ways, tag=f"{tag}{part}")
        if part < ways - 1:
            items.append(sent)
        items.append(replace(product, name=f"{product.name}.part{part}", m=product.m // ways))
        if part < ways - 1:
            items.append(Join(tag=sent.tag))
    return tuple(items)


def scattered_product(product: Gemm, ways: int, payload_bytes: int, tag: str) -> tuple[PassItem, ...]:
    """Return a GEMM whose output is summed over the ranks and scattered, part by part.

    Parameters
    ----------
    product : Gemm
    ways : int
        Ranks, each of which keeps 1/ways of the rows.
    payload_bytes : int
        Of the whole output.
    tag : str
        Of the exchange; unique within the pass.

    Notes
    -----
    As many of 4, 2 or 1 parts as divide the rows of every rank.

    Examples
    --------
    >>> items = scattered_product(Gemm(name="down", m=8, n=2, k=2), 2, 32, "down.scatter")
    >>> [getattr(item, "name", None) or item.tag for item in items][:4]
    ['down.part0', 'down.scatter0', 'down.part1', 'down.scatter1']
    """
    parts = next(n for n in (PIPELINE_PARTS, 2, 1) if product.m % (n * ways) == 0)
    items: list[PassItem] = []
    for part in range(parts):
        items.append(replace(product, name=f"{product.name}.part{part}", m=product.m // parts))
        items.append(Exchange(kind="reduce_scatter", bytes=payload_bytes // parts, tag=f"{tag}{part}"))
    return (*items, *(Join(tag=f"{tag}{part}") for part in range(parts)))
