"""``simgpu topology``: show a topology, check a file, or import what a machine's own tools print."""

from __future__ import annotations

from typing import Annotated

import typer

from simgpu.cli.guard import guarded

topology_app = typer.Typer(
    name="topology",
    help="Show a topology, check a topology file, or import nvidia-smi's matrix, NCCL's XML or a node-link graph.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Named = Annotated[str, typer.Argument(metavar="NAME|FILE", help="Bundled topology, or a topology file.")]


@topology_app.command()
def show(
    topology: _Named,
    nodes: Annotated[int, typer.Option(metavar="N", help="Machines.")] = 1,
    html: Annotated[str | None, typer.Option("--html", metavar="PATH", help="Write the picture as a page.")] = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="PATH", help="Write the figures as JSON; - is standard output.")
    ] = None,
) -> None:
    """Print classes of paths, bandwidth of pairs and bisection; --html draws the graph."""
    with guarded():
        from simgpu.cli.topology_show import show_topology

        show_topology(topology, nodes=nodes, html=html, json=json)


@topology_app.command()
def check(topology: _Named) -> None:
    """Name every problem of a topology file at once, or say in one line what it is."""
    with guarded():
        from simgpu.cli.topology_show import check_topology

        print(check_topology(topology))


@topology_app.command(name="import")
def import_(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="`nvidia-smi topo -m` text, NCCL topology XML, node-link JSON or topology."
        ),
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="PATH", help="Topology YAML, node-link graph if .json; - is stdout.")
    ],
    gpu: Annotated[str | None, typer.Option(metavar="MODEL", help="GPU, such as A100-SXM4-80GB.")] = None,
    nic: Annotated[
        str | None, typer.Option(metavar="RATE", help="NICs: 200G, a type such as 'RoCEv2 100G', or none.")
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the topology.")] = None,
    nvlink: Annotated[
        str | None, typer.Option(metavar="HOW", help="Where the file hides NVLinks: switch or none.")
    ] = None,
    socket: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Link between CPU sockets, such as 'UPI Sapphire Rapids'.")
    ] = None,
) -> None:
    """Turn a machine's own description into a topology file."""
    with guarded():
        from simgpu.cli.topology_import import import_file
        from simgpu.config.imported_topology import Answers

        import_file(file, Answers(gpu=gpu, nic=nic, name=name, nvlink=nvlink, socket=socket), out=out)
