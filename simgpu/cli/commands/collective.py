"""``simgpu collective``."""

from __future__ import annotations

from typing import Annotated

import typer

from simgpu.cli.commands.options import Json
from simgpu.cli.guard import guarded


def collective(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help="all_reduce, all_gather, reduce_scatter, broadcast, all_to_all or sendrecv.",
            show_default=False,
        ),
    ] = None,
    topology: Annotated[
        str | None, typer.Option("--topology", "-t", metavar="NAME|FILE", help="Bundled topology, or a file.")
    ] = None,
    nodes: Annotated[int, typer.Option(metavar="N", help="Machines.")] = 1,
    gpus: Annotated[int | None, typer.Option(metavar="G", help="GPUs in all, the first of every node.")] = None,
    ranks: Annotated[
        str | None, typer.Option(metavar="LIST", help="Members, such as 0,8 or 0-7 or 0-63:8; all by default.")
    ] = None,
    fabric: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A field of the fabric, such as routing=ecmp. May be repeated."),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LINK=SHARE", help="What is left of a link: 'node0/nic0<->pod0/leaf0=0.5'; 0 takes it away."
        ),
    ] = None,
    sizes: Annotated[
        str, typer.Option("--sizes", "-s", metavar="MIN:MAX", help="Total payload; K, M, G are powers of 1024.")
    ] = "1K:8G",
    factor: Annotated[float, typer.Option("--factor", "-f", metavar="F", help="From one size to the next.")] = 2.0,
    dtype: Annotated[str, typer.Option(metavar="TYPE", help="Type of the elements counted.")] = "fp32",
    algo: Annotated[str, typer.Option(metavar="NAME", help="NCCL_ALGO: force an algorithm.")] = "",
    proto: Annotated[str, typer.Option(metavar="NAME", help="NCCL_PROTO: LL, LL128 or Simple.")] = "",
    nccl_version: Annotated[str, typer.Option(metavar="V", help="NCCL's version, such as 2.27.3.")] = "",
    p2p_disable: Annotated[bool, typer.Option("--p2p-disable", help="NCCL_P2P_DISABLE: through host memory.")] = False,
    ib_disable: Annotated[bool, typer.Option("--ib-disable", help="NCCL_IB_DISABLE: sockets, no RDMA.")] = False,
    gdr_level: Annotated[str, typer.Option("--net-gdr-level", metavar="LEVEL", help="NCCL_NET_GDR_LEVEL.")] = "",
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="FILE", help="Price a measured table (CSV; with -t nccl-tests' output) instead."
        ),
    ] = None,
    json: Json = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="PATH", help="Write bus bandwidth against size as HTML.")
    ] = None,
) -> None:
    """Price a collective at many sizes, as nccl-tests would print it; or compare a measured table (--table)."""
    with guarded():
        from simgpu.cli.collective import CollectiveOptions, collective_command

        options = CollectiveOptions(
            topology=topology,
            nodes=nodes,
            gpus=gpus,
            ranks=ranks,
            fabric=tuple(fabric or ()),
            links=tuple(link or ()),
            sizes=sizes,
            factor=factor,
            dtype=dtype,
            algo=algo,
            proto=proto,
            nccl_version=nccl_version,
            p2p_disable=p2p_disable,
            ib_disable=ib_disable,
            gdr_level=gdr_level,
        )
        collective_command(kind, options, table=table, json=json, plot=plot)
