"""``simgpu collective``: one collective at many sizes, or a measured table against its prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from simgpu.cli.destination import DestinationError, choose_destination
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from rich.console import Console

    from simgpu.costs.collectives.settings import NcclSettings
    from simgpu.metrics.collective_errors import TableErrors
    from simgpu.metrics.collective_sweep import CollectiveSweep

_WORST: Final = 10
_LARGE: Final = 2**20  # bytes, from which bandwidth counts
SIZES: Final = "1K:8G"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveOptions:
    """Options of a sweep as the command line gives them; docs/collective.md explains each."""

    topology: str | None = None
    nodes: int = 1
    gpus: int | None = None
    ranks: str | None = None
    fabric: Sequence[str] = ()
    links: Sequence[str] = ()
    sizes: str = SIZES
    factor: float = 2.0
    dtype: str = "fp32"
    algo: str = ""
    proto: str = ""
    nccl_version: str = ""
    p2p_disable: bool = False
    ib_disable: bool = False
    gdr_level: str = ""


def collective_command(
    kind: str | None, options: CollectiveOptions, *, table: str | None, json: str | None, plot: str | None
) -> None:
    """Run the command that the options ask for.

    Parameters
    ----------
    kind : str or None
    options : CollectiveOptions
    table, json, plot : str or None
        Paths as given.

    Raises
    ------
    SimGPUError
        Before anything is written.
    """
    if table is not None:
        _check_table(kind, options, plot)
        table_command(table, options, json=json)
        return
    if kind is None or options.topology is None:
        absent = "KIND" if kind is None else "--topology NAME"
        raise DestinationError(f"{absent} is missing; fix: such as simgpu collective all_reduce --topology dgx-h100")
    sweep_command(kind, options, topology=options.topology, json=json, plot=plot)


def sweep_command(
    kind: str, options: CollectiveOptions, *, topology: str, json: str | None, plot: str | None
) -> CollectiveSweep:
    """Price a collective at many sizes, print the table and write the files.

    Parameters
    ----------
    kind : str
    options : CollectiveOptions
    topology : str
        Bundled name or path.
    json, plot : str or None
        Output paths as given.

    Returns
    -------
    CollectiveSweep

    Raises
    ------
    SimGPUError
        Before anything is written.
    """
    from simgpu.api import collective
    from simgpu.config.lookup import find_file
    from simgpu.io.text_file import write_text
    from simgpu.metrics.collective_sweep import sweep_to_json
    from simgpu.metrics.nccl_tests import dtype_of

    path = find_file(topology, "topologies", folder=Path())
    inputs = [] if path is None else [path]
    no_plot = plot is None
    destination = choose_destination(stem="", html=plot, no_html=no_plot, json=json, inputs=inputs, option="--plot")
    sweep = collective(
        kind,
        topology=topology,
        nodes=options.nodes,
        gpus=options.gpus,
        ranks=options.ranks,
        fabric=_assignments("--fabric", options.fabric, "KEY=VALUE, such as routing=ecmp or oversubscription=2"),
        links=_shares(options.links),
        sizes=options.sizes,
        factor=options.factor,
        dtype=dtype_of(options.dtype),
        nccl=_nccl(options),
    )
    text = _json(sweep_to_json(sweep), destination.json, wanted=destination.json_to_stdout)
    name = sweep.kind.replace("send_recv", "sendrecv")
    title = f"{name} on {sweep.nodes} x {sweep.cluster.name}, {len(sweep.members)} ranks"
    if destination.html is not None:
        from simgpu.view.sweep import page

        write_text(destination.html, page(sweep, title=title))
    console = destination.console()
    console.print(Text(title, style="bold"))
    console.print(sweep_table(sweep))
    if destination.html is not None:
        console.print(f"Plot: {destination.html}", markup=False, soft_wrap=True)
    if text is not None:
        print(text, end="")
    return sweep


def _check_table(kind: str | None, options: CollectiveOptions, plot: str | None) -> None:
    """Refuse what a measured table says itself."""
    if options.topology is None:
        if kind is not None or options != CollectiveOptions() or plot is not None:
            problem = "--table takes everything from its file; fix: give it no other option but --json"
            raise DestinationError(f"{problem}, and --topology NAME with the output of nccl-tests")
        return
    told = replace(
        CollectiveOptions(),
        topology=options.topology,
        algo=options.algo,
        proto=options.proto,
        nccl_version=options.nccl_version,
        p2p_disable=options.p2p_disable,
        ib_disable=options.ib_disable,
        gdr_level=options.gdr_level,
    )
    if kind is not None or options != told or plot is not None:
        problem = "--table with --topology takes collective, ranks, nodes and sizes from nccl-tests' output"
        raise DestinationError(f"{problem}; fix: give it no other option but --json and NCCL's own")


def table_command(table: str, options: CollectiveOptions, *, json: str | None) -> TableErrors:
    """Price every row of a measured table and print the errors by series.

    Parameters
    ----------
    table : str
        Path of a CSV file, or with a topology of nccl-tests' output.
    options : CollectiveOptions
        Topology and NCCL's settings.
    json : str or None
        Output path as given.

    Returns
    -------
    TableErrors

    Raises
    ------
    SimGPUError
        Before anything is written.
    """
    from simgpu.api import collective_table
    from simgpu.metrics.collective_errors import errors_to_json

    path = user_path(table)
    destination = choose_destination(stem="", html=None, no_html=True, json=json, inputs=[path])
    found = collective_table(path, topology=options.topology, nccl=_nccl(options))
    text = _json(errors_to_json(found), destination.json, wanted=destination.json_to_stdout)
    print_errors(found, destination.console())
    if text is not None:
        print(text, end="")
    return found


def sweep_table(sweep: CollectiveSweep) -> Table:
    """Return nccl-tests' columns and SimGPU's own, one row per size.

    Parameters
    ----------
    sweep : CollectiveSweep

    Returns
    -------
    Table
    """
    table = Table()
    for name in ("size (B)", "count", "type", "time (us)", "algbw (GB/s)", "busbw (GB/s)"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("algorithm", "protocol"):
        table.add_column(name, no_wrap=True)
    table.add_column("latency", justify="right", no_wrap=True)
    table.add_column("limited by", overflow="fold")
    table.add_column("source", no_wrap=True)
    for row in sweep.rows:
        table.add_row(
            str(row.size_bytes),
            str(row.count),
            sweep.dtype.value,
            _significant(row.time_ns / 1e3),
            f"{row.algbw_gb_per_s:.2f}",
            f"{row.busbw_gb_per_s:.2f}",
            row.algorithm,
            row.protocol,
            f"{row.latency_share:.0%}",
            Text(row.limit.partition(" (")[0]),
            row.source,
        )
    return table


def print_errors(found: TableErrors, console: Console) -> None:
    """Print errors by series, in total, the worst rows, and what was skipped.

    Parameters
    ----------
    found : TableErrors
    console : Console
    """
    from simgpu.metrics.mean_errors import mean_errors

    if found.series:
        table = Table(title="Predicted against measured time; bias above 0: predicted too slow", title_justify="left")
        table.add_column("series", overflow="fold")
        for name in ("rows", "MAPE", "bias", "from 1 MiB: rows", "MAPE", "bias"):
            table.add_column(name, justify="right", no_wrap=True)
        large = [row for row in found.priced if row.measured.size_bytes >= _LARGE]
        for one in found.series:
            some = [row for row in large if row.measured.series == one.series]
            table.add_row(Text(one.series), *_cells(one.n, one.mape, one.bias), *_cells(*mean_errors(some)))
        table.add_section()
        table.add_row("all", *_cells(*mean_errors(found.priced)), *_cells(*mean_errors(large)))
        console.print(table)
        worst = Table(title=f"The worst {min(_WORST, len(found.priced))}", title_justify="left")
        worst.add_column("series", overflow="fold")
        for name in ("size (B)", "measured (us)", "predicted (us)", "error"):
            worst.add_column(name, justify="right", no_wrap=True)
        worst.add_column("algorithm", no_wrap=True)
        worst.add_column("source", no_wrap=True)
        for row in found.worst(_WORST):
            times = (_significant(row.measured.time_ns / 1e3), _significant(row.time_ns / 1e3))
            series, sent = Text(row.measured.series), str(row.measured.size_bytes)
            worst.add_row(series, sent, *times, f"{row.error:+.1%}", row.algorithm, row.source)
        console.print(worst)
    if found.skipped:
        table = Table(title="Skipped", title_justify="left")
        table.add_column("series", overflow="fold")
        table.add_column("rows", justify="right", no_wrap=True)
        table.add_column("reason", overflow="fold")
        for one_skipped in found.skipped:
            table.add_row(Text(one_skipped.id), str(one_skipped.rows), Text(one_skipped.reason))
        console.print(table)


def _cells(n: int, mape: float | None, bias: float | None) -> tuple[str, str, str]:
    return str(n), "-" if mape is None else f"{mape:.1%}", "-" if bias is None else f"{bias:+.1%}"


def _significant(value: float) -> str:
    """Write four digits, as nccl-tests does: 6.021, 23.41, 189886."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _json(data: dict[str, Any], path: Path | None, *, wanted: bool) -> str | None:
    from simgpu.io.json_file import to_json
    from simgpu.io.text_file import write_text

    text = to_json(data)
    if path is not None:
        write_text(path, text)
    return text if wanted else None


def _nccl(options: CollectiveOptions) -> NcclSettings:
    from simgpu.costs.collectives.settings import CURRENT

    return replace(
        CURRENT,
        version=options.nccl_version or CURRENT.version,
        algo=options.algo,
        proto=options.proto,
        p2p_disable=options.p2p_disable,
        ib_disable=options.ib_disable,
        net_gdr_level=options.gdr_level,
    )


def _assignments(option: str, settings: Sequence[str], allowed: str) -> dict[str, int | float | str]:
    """Read ``KEY=VALUE`` settings; numbers become numbers, the schema checks the rest."""
    found: dict[str, int | float | str] = {}
    for setting in settings:
        key, equals, value = setting.rpartition("=")
        if not equals or not key.strip() or not value.strip():
            raise DestinationError(f"{option} {setting}: is no setting; allowed: {allowed}")
        if key.strip() in found:
            raise DestinationError(f"{option} {setting}: is given twice; leave one of them")
        found[key.strip()] = _number(value.strip())
    return found


def _shares(settings: Sequence[str]) -> dict[str, float]:
    """Read ``LINK=SHARE`` settings."""
    allowed = "LINK=SHARE with a share from 0 to 1, such as node0/nic0<->pod0/leaf0=0.5"
    found: dict[str, float] = {}
    for link, share in _assignments("--link", settings, allowed).items():
        if isinstance(share, str):
            raise DestinationError(f"--link {link}={share}: is no number; allowed: {allowed}")
        found[link] = share
    return found


def _number(text: str) -> int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
