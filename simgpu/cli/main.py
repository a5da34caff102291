"""``simgpu``: the commands and their options. Types double as help."""

from __future__ import annotations

import gc
import io
import sys
from typing import Annotated

import typer

from simgpu import __version__
from simgpu.cli.guard import guarded
from simgpu.cli.topology import topology_app

app = typer.Typer(
    name="simgpu",
    help="Play a multi-GPU training step and see where every nanosecond goes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topology_app)

_Scenario = Annotated[str, typer.Argument(metavar="FILE", help="Scenario file, or the name of a bundled one.")]
_Scenarios = Annotated[list[str], typer.Argument(metavar="FILE...", help="Scenario files, or names of bundled ones.")]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set a field, such as cluster.gpus=4. May be repeated."),
]
_Html = Annotated[str | None, typer.Option("--html", metavar="PATH", help="Where the HTML report goes.")]
_NoHtml = Annotated[bool, typer.Option("--no-html", help="Write no HTML report.")]
_Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="PATH", help="Write the numbers as JSON; - is standard output, tables go to stderr."
    ),
]
_Png = Annotated[
    str | None, typer.Option("--png", metavar="PATH", help="Draw the timeline as PNG; needs the static extra.")
]
_Svg = Annotated[
    str | None, typer.Option("--svg", metavar="PATH", help="Draw the timeline as SVG; needs the static extra.")
]
_Rank = Annotated[int | None, typer.Option("--rank", metavar="R", help="Show this rank's own step as well.")]
_Advice = Annotated[
    bool | None,
    typer.Option("--advice/--no-advice", help="Try the usual levers on runs that disappoint; small ones by default."),
]
_NoFold = Annotated[bool, typer.Option("--no-fold", help="Simulate every rank, even those proved alike.")]

# Nearly all objects of a command live to its end. Python looks for cycles among them after every 700 new ones, which
# takes a tenth of a short command's time; after this many it takes nothing, and still bounds what a long one holds.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"simgpu {__version__}")
        raise typer.Exit


@app.callback()
def _simgpu(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Play a multi-GPU training step and see where every nanosecond goes."""


@app.command()
def run(
    file: _Scenario,
    set_: _Set = None,
    html: _Html = None,
    no_html: _NoHtml = False,
    json: _Json = None,
    png: _Png = None,
    svg: _Svg = None,
    rank: _Rank = None,
    no_fold: _NoFold = False,
    what_if: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="CHANGES",
            help="Play again with changes, such as nvlink=2x,tp=free,bubble=none; the largest gains by default.",
        ),
    ] = None,
    no_what_if: Annotated[bool, typer.Option("--no-what-if", help="Look for no gains.")] = False,
    advice: _Advice = None,
) -> None:
    """Simulate a scenario; with variants, compare them. Writes ./<scenario>.html."""
    pictures = (png, svg)
    gains = not no_what_if
    _play([file], set_, html, no_html, json, rank, no_fold, pictures, what_if=what_if, gains=gains, advice=advice)


@app.command()
def compare(
    files: _Scenarios,
    set_: _Set = None,
    html: _Html = None,
    no_html: _NoHtml = False,
    json: _Json = None,
    png: _Png = None,
    svg: _Svg = None,
    rank: _Rank = None,
    no_fold: _NoFold = False,
    advice: _Advice = None,
) -> None:
    """Simulate several scenarios and lay all their cases side by side. Writes ./compare.html."""
    _play(files, set_, html, no_html, json, rank, no_fold, (png, svg), advice=advice)


@app.command()
def sweep(
    file: _Scenario,
    set_: _Set = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="Processes; as many as CPUs by default.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Use a Dask cluster: its scheduler's address.")
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="PATH", help="Finished points, to resume from; ./<scenario>.sweep.jsonl."),
    ] = None,
    html: _Html = None,
    no_html: _NoHtml = False,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="PATH", help="Where the table goes; ./<scenario>.sweep.csv.")
    ] = None,
    parquet: Annotated[
        str | None, typer.Option("--parquet", metavar="PATH", help="Write the table as Parquet too (pyarrow).")
    ] = None,
    json: _Json = None,
    no_fold: _NoFold = False,
) -> None:
    """Simulate every point of a scenario's sweep grid; the same command resumes. Writes ./<scenario>.sweep.html."""
    with guarded():
        from simgpu.cli.sweep import sweep_command

        sweep_command(
            file,
            overrides=set_ or (),
            jobs=jobs,
            dask=dask,
            journal=journal,
            html=html,
            no_html=no_html,
            csv=csv,
            parquet=parquet,
            json=json,
            fold=not no_fold,
        )


@app.command()
def search(
    file: _Scenario,
    set_: _Set = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="PATH", help="Winner as a scenario file; - is standard output.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="Processes; as many as CPUs by default.")
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="PATH", help="Keep finished simulations here, and go on from them."),
    ] = None,
    html: _Html = None,
    no_html: _NoHtml = False,
    json: _Json = None,
    no_fold: _NoFold = False,
) -> None:
    """Find the fastest strategy that fits, for a fixed model, cluster and batch. Writes ./<scenario>.search.html."""
    with guarded():
        from simgpu.cli.search import search_command

        search_command(
            file,
            overrides=set_ or (),
            out=out,
            jobs=jobs,
            journal=journal,
            html=html,
            no_html=no_html,
            json=json,
            fold=not no_fold,
        )


@app.command()
def validate(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Scenarios with measured values, CSV tables of runs, or folders; by default the published runs.",
            show_default=False,
        ),
    ] = None,
    set_: _Set = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="COLUMN=PATTERN", help="Rows of tables that count, such as tier=A. Repeatable."
        ),
    ] = None,
    group: Annotated[str, typer.Option(metavar="COLUMN", help="Split each table into families by this column.")] = "",
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="Processes; as many as CPUs by default.")
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="PATH", help="Keep finished predictions here, and go on from them."),
    ] = None,
    html: _Html = None,
    no_html: _NoHtml = False,
    json: _Json = None,
) -> None:
    """Predict runs that were measured and show the errors. Writes ./validate.html."""
    with guarded():
        from simgpu.cli.validate import validate_command

        validate_command(
            paths or (),
            overrides=set_ or (),
            where=where or (),
            group=group,
            jobs=jobs,
            journal=journal,
            html=html,
            no_html=no_html,
            json=json,
        )


@app.command()
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
    json: _Json = None,
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


@app.command()
def ops(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO", help="Scenario file, or the name of a bundled one.", show_default=False),
    ] = None,
    set_: _Set = None,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="GPU of --gemm and --attention.")] = None,
    gemm: Annotated[
        list[str] | None, typer.Option("--gemm", metavar="M,N,K[,BATCH]", help="One matrix product. May be repeated.")
    ] = None,
    attention: Annotated[
        list[str] | None,
        typer.Option(
            "--attention",
            metavar="BATCH,SEQUENCE,HEADS,HEAD_DIM[,KV_HEADS]",
            help="One fused attention. May be repeated.",
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(metavar="TYPE", help="fp32, tf32, bf16, fp16 or fp8.")] = "bf16",
    causal: Annotated[bool, typer.Option("--causal/--no-causal", help="Mask of --attention.")] = True,
    backward: Annotated[
        bool, typer.Option("--backward", help="The backward pass of --attention, or both gradients of --gemm.")
    ] = False,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            metavar="NAME",
            help="Kernel of --attention, such as flash-3 or cudnn.",
            show_default="flash-2, or the GPU's first",
        ),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            "--rates",
            "--rate",
            metavar="RATES",
            help="peak, sustained or measured; of a --table also machine, what its own products show.",
            show_default="sustained; machine for --table",
        ),
    ] = None,
    power_cap: Annotated[
        str | None, typer.Option("--power-cap", metavar="W", help="Power limit of the GPU: 400, '400 W'.")
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="FILE.csv", help="Price every row of a measured table instead.")
    ] = None,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="PATH", help="Write a table to fill in, for costs: {table: PATH}.")
    ] = None,
    json: _Json = None,
    wide: Annotated[bool, typer.Option("--wide", help="Print every column, however narrow the terminal.")] = False,
) -> None:
    """List every op of a scenario's step with what limits it; price one op (--gemm); or compare a table (--table)."""
    with guarded():
        from simgpu.cli.ops import OneOp, ops_command

        one = OneOp(
            gpu=gpu,
            gemm=tuple(gemm or ()),
            attention=tuple(attention or ()),
            dtype=dtype,
            causal=causal,
            backward=backward,
            kernel=kernel,
            rates=rates,
            power_cap=power_cap,
        )
        ops_command(scenario, one, overrides=set_ or (), table=table, csv=csv, json=json, wide=wide)


@app.command()
def schedule(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="Pipeline schedule such as 1f1b or zbv, or a CSV of PyTorch's.")
    ],
    stages: Annotated[int | None, typer.Option("--stages", "-p", metavar="P", help="Pipeline ranks.")] = None,
    virtual: Annotated[
        int | None,
        typer.Option("--virtual", "-v", metavar="V", help="Stages per rank; 1, or 2 where it takes several."),
    ] = None,
    microbatches: Annotated[
        int | None, typer.Option("--microbatches", "-m", metavar="M", help="Microbatches per step.")
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="grid, or PyTorch's csv.")] = "grid",
    json: _Json = None,
) -> None:
    """Print a pipeline schedule, step by step, after checking that it can run."""
    with guarded():
        from simgpu.cli.schedule import schedule_command

        schedule_command(name, stages=stages, virtual=virtual, microbatches=microbatches, form=form, json=json)


@app.command("import")
def import_(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Files of one run: DeepSpeed, Accelerate, LLaMA-Factory, Axolotl and others, and its launch script.",
        ),
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="PATH", help="Scenario file; - is standard output.")],
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME|FILE", help="Bundled model, or a config.json.")
    ] = None,
    topology: Annotated[
        str | None, typer.Option("--topology", "-t", metavar="NAME|FILE", help="Bundled topology, or a file.")
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", metavar="N", min=1, help="GPUs in all.")] = None,
    set_: _Set = None,
) -> None:
    """Make a scenario of the configuration files that a run has. Nothing in them is executed."""
    with guarded():
        from simgpu.cli.imports import import_command
        from simgpu.config.imported_run import RunAnswers

        answers = RunAnswers(model=model, topology=topology, gpus=gpus, settings=tuple(set_ or ()))
        import_command(files, answers, out=out)


@app.command()
def export(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Scenario file, or the name of a bundled one.")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="A trace: perfetto (one file) or kineto (a file per rank); "
            "launch files: deepspeed, accelerate, torchrun, megatron or torchtitan.",
        ),
    ] = "perfetto",
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="PATH", help="File of perfetto, folder of the others.")
    ] = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="NAME", help="Which of the scenario's variants.")
    ] = None,
    set_: _Set = None,
    waits: Annotated[
        bool, typer.Option("--waits", help="Let NCCL kernels spin until their partners come, as profilers show them.")
    ] = False,
    all_ranks: Annotated[
        bool, typer.Option("--all-ranks", help="Every rank, also of large jobs, whose alike ranks share a file.")
    ] = False,
) -> None:
    """Write a simulated step as a trace, for ui.perfetto.dev or as the PyTorch profiler does; or its launch files."""
    with guarded():
        from simgpu.cli.export import export_command

        written = export_command(
            scenario, form=form, out=out, case=case, overrides=set_ or (), waits=waits, all_ranks=all_ranks
        )
        typer.echo(written[0] if form == "perfetto" else f"{written[0].parent}: {len(written)} files")


@app.command()
def trace(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="PyTorch profiler traces of one job, or folders of them.")
    ],
    step: Annotated[
        str | None, typer.Option("--step", metavar="N", help="Only ProfilerStep#N; the mean of all by default.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="SCENARIO", help="Lay this scenario's simulated step beside it.")
    ] = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="NAME", help="Which of that scenario's variants.")
    ] = None,
    set_: _Set = None,
    json: _Json = None,
    ops: Annotated[
        str | None, typer.Option("--ops", metavar="FILE.csv", help="Write measured products and attention as a table.")
    ] = None,
) -> None:
    """Break real steps down, from the PyTorch profiler's traces; and compare them with a simulated one (--against)."""
    with guarded():
        from simgpu.cli.trace import trace_command

        trace_command(files, step=step, against=against, case=case, overrides=set_ or (), json=json, ops=ops)


@app.command()
def check(
    file: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="Scenario of the real run, with --case where needed.")
    ],
    trace: Annotated[
        list[str] | None, typer.Option("--trace", metavar="PATH", help="Profiler traces, or a folder. May be repeated.")
    ] = None,
    log: Annotated[
        str | None, typer.Option("--log", metavar="FILE", help="Log of the training program with its step times.")
    ] = None,
    step: Annotated[str | None, typer.Option("--step", metavar="N", help="Only ProfilerStep#N of the traces.")] = None,
    case: Annotated[str | None, typer.Option("--case", metavar="NAME", help="Which of the variants.")] = None,
    set_: _Set = None,
    json: _Json = None,
) -> None:
    """Lay a real step beside the predicted one and name what would explain the difference."""
    with guarded():
        from simgpu.cli.check import check_command

        check_command(file, traces=trace or (), log=log, step=step, case=case, overrides=set_ or (), json=json)


def _play(
    files: list[str],
    set_: list[str] | None,
    html: str | None,
    no_html: bool,
    json: str | None,
    rank: int | None,
    no_fold: bool,
    pictures: tuple[str | None, str | None],
    *,
    what_if: str | None = None,
    gains: bool = False,
    advice: bool | None = None,
) -> None:
    with guarded():
        from simgpu.cli.play import play_files

        play_files(
            files,
            overrides=set_ or (),
            html=html,
            no_html=no_html,
            json=json,
            png=pictures[0],
            svg=pictures[1],
            rank=rank,
            fold=not no_fold,
            what_if=what_if,
            gains=gains,
            advice=advice,
        )


def main() -> None:
    """Run the command line; the entry point of ``simgpu`` and ``python -m simgpu``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode gets question marks, not a traceback
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    with guarded():
        app(prog_name="simgpu")


if __name__ == "__main__":
    main()
