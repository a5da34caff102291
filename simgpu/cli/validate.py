"""``simgpu validate``: published runs against their predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from simgpu.cli.destination import DestinationError, choose_destination
from simgpu.cli.work_bar import WorkBar
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from rich.console import Console

    from simgpu.metrics.validation import ValidatedRun, Validation

_MOST_JOBS: Final = 512
_WORST: Final = 10
_FEW: Final = 40  # runs up to which all are listed, in the files' order
_CLASSES: Final = 4  # of a breakdown
_STEM: Final = "validate"


def validate_command(
    paths: Sequence[str],
    *,
    overrides: Sequence[str],
    where: Sequence[str],
    group: str,
    jobs: int | None,
    journal: str | None,
    html: str | None,
    no_html: bool,
    json: str | None,
) -> None:
    """Read measured runs, predict them, print the errors and write the files.

    Parameters
    ----------
    paths : sequence of str
        Scenario files, tables or folders; the published runs when empty.
    overrides : sequence of str
        ``a.b=value`` settings for every run.
    where : sequence of str
        ``COLUMN=PATTERN`` texts.
    group : str
        Column that splits tables into families.
    jobs : int or None
        Processes.
    journal, html, json : str or None
        Paths as given.
    no_html : bool

    Raises
    ------
    SimGPUError
        Before anything is simulated where the input or the output paths are at fault.
    """
    from simgpu.config.measured_file import PUBLISHED, expand_sources
    from simgpu.config.run_table import parse_selection
    from simgpu.validation import read_runs, validate_runs

    if jobs is not None and not 1 <= jobs <= _MOST_JOBS:
        raise DestinationError(f"--jobs {jobs}: is out of range; allowed: 1 to {_MOST_JOBS}")
    sources = paths or (PUBLISHED,)
    inputs = [path for path in expand_sources(sources) if path.is_file()]
    destination = choose_destination(stem=_STEM, html=html, no_html=no_html, json=json, inputs=inputs)
    kept = None if journal is None else user_path(journal)
    if kept is not None and any(kept.resolve() == path.resolve() for path in inputs):
        raise DestinationError(f"--journal {kept}: was read for this run; fix: name another file")
    runs, skipped = read_runs(sources, overrides=overrides, selection=parse_selection(where, group))
    with closing(_Watch()) as watch:
        found = validate_runs(runs, skipped, jobs=jobs, journal=kept, watch=watch)
    text = _json(found) if json is not None else None
    if destination.json is not None and text is not None:
        from simgpu.io.text_file import write_text

        write_text(destination.json, text)
    title = " / ".join(one.family for one in found.families)
    if destination.html is not None:
        from simgpu.cli.point_basis import scenario_files
        from simgpu.io.text_file import write_text
        from simgpu.view.validation import page

        read = [file for path in inputs for file in scenario_files(path, overrides)]
        write_text(destination.html, page(found, title="Predicted and measured steps", read=read))
    _print(found, destination.console(), title)
    if destination.html is not None:
        destination.console().print(f"Report: {destination.html}", markup=False, soft_wrap=True)
    if destination.json_to_stdout and text is not None:
        print(text, end="")


def _json(found: Validation) -> str:
    from simgpu.io.json_file import to_json
    from simgpu.metrics.validation import validation_to_json

    return to_json(validation_to_json(found))


def _print(found: Validation, console: Console, title: str) -> None:
    from rich.table import Table
    from rich.text import Text

    listed = found.runs if len(found.runs) <= _FEW else found.worst(_WORST)
    if listed:
        console.print(_runs(listed, title if len(found.runs) <= _FEW else f"The {_WORST} largest errors"))
    table = Table(title="Families", title_justify="left")
    table.add_column("family", overflow="fold")
    for head in ("runs", "skipped", "mean error", "bias", "memory"):
        table.add_column(head, justify="right", no_wrap=True)
    for one in found.families:
        table.add_row(
            Text(one.family), f"{one.n:,}", f"{one.skipped:,}" if one.skipped else "", _percent(one.mape),
            _signed(one.bias), _percent(one.memory_mape),
        )  # fmt: skip
    if len(found.families) > 1:
        table.add_section()
        skipped = f"{len(found.skipped):,}" if found.skipped else ""
        table.add_row("in total", f"{len(found.runs):,}", skipped, _percent(found.mape), _signed(found.bias), "")
    console.print(table)
    for one in found.families:
        if one.bubble_points is not None:
            text = f"Bubbles of {one.family}: within {one.bubble_points:.2f} points of the published ones"
            console.print(Text(text), soft_wrap=True)
        if one.layouts is not None:
            text = (
                f"Layouts of {one.family}: {one.layouts.settings:,} models, batches and machines in several; the one "
                f"predicted to be fastest is {one.layouts.regret:.1%} slower than the fastest on average; "
                f"{one.layouts.ordered:.1%} of {one.layouts.pairs:,} pairs ordered right"
            )
            console.print(Text(text), soft_wrap=True)
    reasons = Counter((run.family, run.reason) for run in found.skipped)
    if reasons:
        left = Table(title="Not predicted", title_justify="left")
        left.add_column("family", overflow="fold")
        left.add_column("runs", justify="right")
        left.add_column("reason", overflow="fold")
        for (family, reason), count in reasons.most_common():
            left.add_row(Text(family), f"{count:,}", Text(reason))
        console.print(left)
    assumed = Counter((run.family, text) for run in found.runs for text in run.assumptions)
    for (family, text), count in assumed.most_common():
        console.print(Text(f"Assumed in {count:,} of {family}: {text}"), soft_wrap=True)


def _runs(runs: Sequence[ValidatedRun], title: str) -> object:
    from rich.table import Table
    from rich.text import Text

    from simgpu.units import format_time

    memory = any(run.memory_error is not None for run in runs)
    table = Table(title=Text(title), title_justify="left")
    table.add_column("run", overflow="fold")
    for head in ("measured", "predicted", "error", *(("memory",) if memory else ())):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("most of the predicted step", overflow="fold")
    for run in runs:
        table.add_row(
            Text(run.id), format_time(run.measured_step_s * 1e9), format_time(run.predicted_step_s * 1e9),
            _signed(run.error), *((_signed(run.memory_error),) if memory else ()),
            ", ".join(f"{name.removeprefix('compute.')} {share:.0%}" for name, share in run.largest(_CLASSES)),
        )  # fmt: skip
    return table


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value * 100:.1f} %"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value * 100:+.1f} %"


class _Watch(WorkBar):
    """Says on standard error how a validation goes: a bar with the time left on a terminal."""

    def __init__(self) -> None:
        super().__init__("runs")

    def begin(self, known: int, unknown: int) -> None:
        """Start the bar."""
        if known:
            self.notice(f"{known:,} predictions are in the journal already, {unknown:,} to go")
        self.start(unknown)

    def done(self) -> None:
        """Advance by one run."""
        self.advance()
