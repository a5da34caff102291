"""``simgpu export``: a simulated step as the files that profilers' tools read, or the files that launch it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simgpu.cli.destination import DestinationError
from simgpu.cli.one_case import one_case
from simgpu.cli.progress import watched
from simgpu.io.text_file import check_writable, write_text
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from simgpu.config.case import Case

TRACES: Final = ("perfetto", "kineto")
LAUNCHES: Final = ("deepspeed", "accelerate", "torchrun", "megatron", "torchtitan")
"""Launch files; `simgpu.io.launch.formats.FORMATS` has their writers."""
_ALL_RANKS: Final = 64
"""Jobs up to this size are exported rank by rank; larger ones by class of alike ranks, unless all are asked for."""


def export_command(
    scenario: str,
    *,
    form: str,
    out: str | None,
    case: str | None,
    overrides: Sequence[str],
    waits: bool,
    all_ranks: bool,
) -> list[Path]:
    """Write one case: simulated, as a trace of its step; or as the files that launch it.

    Parameters
    ----------
    scenario : str
    form : str
        ``perfetto`` (one file), ``kineto`` (a folder with a file per rank), or one of `LAUNCHES` (a folder).
    out : str or None
        Path as given.
    case : str or None
        Which variant.
    overrides : sequence of str
        ``a.b=value`` settings.
    waits : bool
        NCCL kernels of ``kineto`` spin until their partners have come, as real ones do.
    all_ranks : bool
        A file for every rank, however many.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    SimGPUError
        Before anything is simulated where the input or the output path is at fault.
    """
    if form not in (*TRACES, *LAUNCHES):
        raise DestinationError(f"--format {form}: is no format; allowed: {', '.join((*TRACES, *LAUNCHES))}")
    if waits and form != "kineto":
        raise DestinationError("--waits belongs to --format kineto; perfetto shows waits as bars of their own")
    if all_ranks and form in LAUNCHES:
        raise DestinationError("--all-ranks belongs to --format perfetto and kineto; fix: leave it out")
    chosen = one_case(scenario, overrides=overrides, name=case)
    if form in LAUNCHES:
        return _launch_files(scenario, chosen, form, out, overrides)
    path = user_path(
        out or (f"{_stem(scenario)}.perfetto.json.gz" if form == "perfetto" else f"{_stem(scenario)}.kineto")
    )
    if form == "perfetto":
        check_writable(path)
    else:
        _check_folder(path)
    from simgpu.api import facts, play_case
    from simgpu.io.kineto import write_kineto
    from simgpu.io.perfetto import write_perfetto
    from simgpu.metrics.summary import summarize

    fold = not all_ranks and (form == "perfetto" or chosen.cluster.world_size > _ALL_RANKS)
    with watched(1) as watch:
        watch.begin(chosen.name)
        timeline = play_case(chosen, fold=fold)
        if form == "perfetto":
            write_perfetto(path, summarize(timeline, facts(chosen)))
            return [path]
        path.mkdir(exist_ok=True)
        return write_kineto(path, timeline, waits=waits, gpus_per_node=facts(chosen).ranks_per_host)


def _launch_files(scenario: str, case: Case, form: str, out: str | None, overrides: Sequence[str]) -> list[Path]:
    """Write the files that launch a case, and say what the job does in another way."""
    from simgpu.config.exported_run import export_run

    folder = user_path(out or f"{_stem(scenario)}.{form}")
    _check_folder(folder)
    run = export_run(scenario, case, form, overrides)
    folder.mkdir(exist_ok=True)
    written = []
    for name, text in run.files.items():
        write_text(folder / name, text)
        written.append(folder / name)
    for note in run.notes:
        print(f"note: {note}")
    print(f"back to a scenario: {run.back}")
    return written


def _stem(scenario: str) -> str:
    return Path(scenario).stem if scenario.endswith((".yaml", ".yml")) else Path(scenario).name


def _check_folder(path: Path) -> None:
    """Check that a folder can be made, or is there and empty: a reader takes every file in it for a rank."""
    if path.is_dir():
        if any(path.iterdir()):
            raise DestinationError(f"--out {path}: is not empty; fix: name a new folder")
        check_writable(path / "rank0.json.gz")
        return
    check_writable(path)
    if path.exists():
        raise DestinationError(f"--out {path}: is a file; fix: name a folder")
