"""``simgpu ops``."""

from __future__ import annotations

from typing import Annotated

import typer

from simgpu.cli.commands.options import Json, Set
from simgpu.cli.guard import guarded


def ops(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO", help="Scenario file, or the name of a bundled one.", show_default=False),
    ] = None,
    set_: Set = None,
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
    json: Json = None,
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
