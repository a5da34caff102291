"""``simgpu``: its commands, in the order of the help."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from simgpu import __version__
from simgpu.cli.commands.collective import collective
from simgpu.cli.commands.exchange import export, import_
from simgpu.cli.commands.measured_step import check, trace
from simgpu.cli.commands.ops import ops
from simgpu.cli.commands.play import compare, run
from simgpu.cli.commands.schedule import schedule
from simgpu.cli.commands.search import search
from simgpu.cli.commands.sweep import sweep
from simgpu.cli.commands.validate import validate
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

# Nearly all objects of a command live to its end. Python looks for cycles among them after every 700 new ones, which
# takes a tenth of a short command's time; after this many it takes nothing, and still bounds what a long one holds.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000


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


_COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "run": run,
    "compare": compare,
    "sweep": sweep,
    "search": search,
    "validate": validate,
    "collective": collective,
    "ops": ops,
    "schedule": schedule,
    "import": import_,
    "export": export,
    "trace": trace,
    "check": check,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)


def main() -> None:
    """Run the command line; the entry point of ``simgpu`` and ``python -m simgpu``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode gets question marks, not a traceback
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by numpy: no work here is worth starting its threads
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)  # what is left then goes with the process: no need to look for cycles in all of it
    with guarded():
        app(prog_name="simgpu")


if __name__ == "__main__":
    main()
