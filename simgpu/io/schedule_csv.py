"""PyTorch's pipeline-schedule CSV: one row per rank, one action per cell."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simgpu.errors import Issue, ScenarioError, SimGPUError
from simgpu.io.text_file import read_text
from simgpu.parallel.placement import Placement
from simgpu.parallel.schedules import PipelineSchedule, Slot, parse_slot, slot_text

# What the file may also hold and SimGPU derives by itself.
_DERIVED: Final = re.compile(r"([0-9]{1,6})(?:(?:SEND|RECV)_[FB][0-9]{1,6}|UNSHARD|RESHARD|REDUCE_GRAD)")
_ALLOWED: Final = (
    "nothing, stage + F, I, W or B + microbatch such as 2F0, (0F7;7B3)OVERLAP_F_B, "
    "or SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD"
)


class ScheduleCsvError(SimGPUError):
    """A schedule that PyTorch's CSV cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """A cell that computes, and where it stands."""

    rank: int
    line: int
    column: int
    slot: Slot


def write_schedule_csv(schedule: PipelineSchedule) -> str:
    r"""Write a schedule as PyTorch's ``compute_only`` CSV, which its ``_PipelineScheduleRuntime`` loads.

    Parameters
    ----------
    schedule : PipelineSchedule

    Returns
    -------
    str
        Lines that end in a newline; cells as PyTorch writes them, idle slots empty.

    Raises
    ------
    ScheduleCsvError
        When stages live on two ranks each (DualPipe): the file names no rank but by its line.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> write_schedule_csv(build_schedule("1f1b", ranks=2, microbatches=1))
    '0F0,,,,0B0\n,1F0,1B0\n'
    """
    if schedule.placement.mirrored_from is not None:
        raise ScheduleCsvError(
            f"{schedule.name} has no CSV: its stages live on two ranks each, and PyTorch's format knows one rank per "
            "stage; fix: ask for the grid, or for dualpipev"
        )
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([slot_text(slot) for slot in row] for row in schedule.rows)
    return text.getvalue()


def read_schedule_csv(path: Path) -> PipelineSchedule:
    r"""Read a schedule from PyTorch's CSV, ``compute_only`` or ``compute_comms``.

    Parameters
    ----------
    path : Path

    Returns
    -------
    PipelineSchedule
        Named after the file. Sends, receives, gathers and reductions are left out, since SimGPU derives them; each
        stage belongs to the rank whose row names it. ``check_schedule`` says whether it can run.

    Raises
    ------
    ScenarioError
        With one issue per cell that is none, and where a stage is on two ranks or a stage or microbatch is left out.

    Notes
    -----
    PyTorch once wrote ``B`` for the gradient of the input, beside ``W``. A file with W and no I is read so: a full
    backward has no W of its own.

    References
    ----------
    pytorch/pytorch torch/distributed/pipelining/schedules.py, _PipelineScheduleRuntime._load_csv.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "mine.csv"
    ...     _ = path.write_text("0F0,,,0B0\n,1F0,1B0\n")
    ...     schedule = read_schedule_csv(path)
    >>> schedule.name, schedule.placement.rank_of_stage, schedule.microbatches
    ('mine', (0, 1), 1)
    """
    source = str(path)
    cells, ranks = _cells(read_text(path, source), source)
    cells = _with_input_gradients(cells)
    rank_of_stage = _rank_of_stage(cells, source)
    microbatches = _count(
        cells, "microbatch", "microbatches", {action.microbatch for cell in cells for action in cell.slot}, source
    )
    rows: list[list[Slot]] = [[] for _ in range(ranks)]
    for cell in cells:
        rows[cell.rank].append(cell.slot)
    return PipelineSchedule(
        name=path.stem,
        placement=Placement(ranks=ranks, rank_of_stage=rank_of_stage),
        microbatches=microbatches,
        rows=tuple(map(tuple, rows)),
    )


def _cells(text: str, source: str) -> tuple[list[_Cell], int]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    cells: list[_Cell] = []
    issues: list[Issue] = []
    rank = 0
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            for column, raw in enumerate(row, start=1):
                token = raw.strip()
                if _DERIVED.fullmatch(token):
                    continue
                slot = parse_slot(token)
                if slot is None:
                    issues.append(_issue(source, reader.line_num, column, token, "is no action", _ALLOWED))
                else:
                    cells.append(_Cell(rank=rank, line=reader.line_num, column=column, slot=slot))
            rank += 1
    except csv.Error as error:
        problem = f"is no CSV: {error}"
        raise ScenarioError([Issue(field="", problem=problem, file=source, line=reader.line_num)]) from None
    if issues:
        raise ScenarioError(issues)
    if not any(cell.slot for cell in cells):
        raise ScenarioError([Issue(field="", problem="holds no action that computes", file=source)])
    return cells, rank


def _with_input_gradients(cells: list[_Cell]) -> list[_Cell]:
    """Read the old letter B as I."""
    kinds = {action.kind for cell in cells for action in cell.slot}
    if "W" not in kinds or "I" in kinds:
        return cells
    return [
        _Cell(
            rank=cell.rank,
            line=cell.line,
            column=cell.column,
            slot=tuple(action._replace(kind="I") if action.kind == "B" else action for action in cell.slot),
        )
        for cell in cells
    ]


def _rank_of_stage(cells: list[_Cell], source: str) -> tuple[int, ...]:
    home: dict[int, int] = {}
    issues = []
    for cell in cells:
        for action in cell.slot:
            if home.setdefault(action.stage, cell.rank) != cell.rank:
                problem = f"stage {action.stage} is on rank {home[action.stage]} already"
                allowed = "each stage on one rank"
                issues.append(_issue(source, cell.line, cell.column, slot_text(cell.slot), problem, allowed))
    if issues:
        raise ScenarioError(issues)
    stages = _count(cells, "stage", "stages", set(home), source)
    return tuple(home[stage] for stage in range(stages))


def _count(cells: list[_Cell], what: str, several: str, found: set[int], source: str) -> int:
    """Return how many there are, when they are 0 to the largest without a gap."""
    if max(found) == len(found) - 1:
        return len(found)
    absent = next(number for number in range(len(found)) if number not in found)
    cell = next(cell for cell in cells if any(getattr(action, what) == max(found) for action in cell.slot))
    problem = f"{what} {max(found)} is there and {what} {absent} is not"
    allowed = f"{several} from 0 without a gap"
    raise ScenarioError([_issue(source, cell.line, cell.column, slot_text(cell.slot), problem, allowed)])


def _issue(source: str, line: int, column: int, value: str, problem: str, allowed: str) -> Issue:
    return Issue(field=f"column {column}", value=value, problem=problem, allowed=allowed, file=source, line=line)


def schedule_to_rows(schedule: PipelineSchedule) -> Sequence[Sequence[str]]:
    """Return the cells of a schedule as texts, one list per rank.

    Parameters
    ----------
    schedule : PipelineSchedule

    Returns
    -------
    sequence of sequence of str

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> schedule_to_rows(build_schedule("gpipe", ranks=1, microbatches=1))
    [['0F0', '0B0']]
    """
    return [[slot_text(slot) for slot in row] for row in schedule.rows]
