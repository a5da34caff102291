"""``simgpu trace`` and ``simgpu check``: real steps."""

from __future__ import annotations

from typing import Annotated

import typer

from simgpu.cli.commands.options import Json, Set
from simgpu.cli.guard import guarded


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
    set_: Set = None,
    json: Json = None,
    ops: Annotated[
        str | None, typer.Option("--ops", metavar="FILE.csv", help="Write measured products and attention as a table.")
    ] = None,
) -> None:
    """Break real steps down, from the PyTorch profiler's traces; and compare them with a simulated one (--against)."""
    with guarded():
        from simgpu.cli.trace import trace_command

        trace_command(files, step=step, against=against, case=case, overrides=set_ or (), json=json, ops=ops)


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
    set_: Set = None,
    json: Json = None,
) -> None:
    """Lay a real step beside the predicted one and name what would explain the difference."""
    with guarded():
        from simgpu.cli.check import check_command

        check_command(file, traces=trace or (), log=log, step=step, case=case, overrides=set_ or (), json=json)
