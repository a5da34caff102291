"""The instructions that spans executed, as columns: of every span a number, of every number what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from simgpu.metrics.activity import CLASSES, exposed, late_class
from simgpu.metrics.numbering import as_they_come
from simgpu.program import Alloc, Collective, Compute, Free, Instruction, Issue, Program, Record, Recv, Send, Wait
from simgpu.script import pieces_of
from simgpu.timeline import Int64, Timeline

OTHER, WORK, TRANSFER, WAIT = range(4)
"""What an instruction is to metrics: kernels, a transfer between ranks, a wait for an event, or anything else."""
PLACE: Final = {name: place for place, name in enumerate(CLASSES)}
"""Index into CLASSES."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InstructionTable:
    """What the spans of a Timeline executed; an instruction of a block has one number wherever it is used.

    Parameters
    ----------
    number, microbatch, shift : (spans,) int64
        Of each span: the number of its instruction, the microbatch it works on (-1 for none), and what is added to
        the event that it waits for.
    items : list of Instruction
        By number, as they stand in their blocks.
    kind, bytes, event, meeting : (n,) int64
        By number: WORK, TRANSFER, WAIT or OTHER; payload of a transfer; event that a wait is for; number of a
        transfer's communicator, kind and tag.
    late, moving : (n,) int64
        By number: classes of a wait for a transfer before and after its last member is there; -1 for what is none.
    work : (n,) int64
        By number: index into ``works``, -1 for what has no kernels.
    works : list of Compute
        One of those that run the same kernels.
    """

    number: Int64
    microbatch: Int64
    shift: Int64
    items: list[Instruction]
    kind: Int64
    bytes: Int64
    event: Int64
    meeting: Int64
    late: Int64
    moving: Int64
    work: Int64
    works: list[Compute]


def instruction_table(timeline: Timeline) -> InstructionTable:
    """Tabulate the instructions that a Timeline's spans executed.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    InstructionTable

    Examples
    --------
    >>> import simgpu
    >>> timeline = simgpu.play_case(simgpu.load_scenario("pipeline_ideal").cases[0])
    >>> table = instruction_table(timeline)
    >>> table.items[table.number[0]].name, int(table.microbatch[0])
    ('forward stage 0', 0)
    """
    places = _places(timeline)
    used = np.flatnonzero(np.bincount(places.number))
    number = np.cumsum(np.bincount(used))[places.number] - 1  # counted among those that are used
    items = [places.items[one] for one in used.tolist()]
    columns, works = _columns(timeline.program, items)
    own = columns.pop("microbatch")
    return InstructionTable(
        number=number,
        microbatch=np.where(places.microbatch == _OWN, own[number], places.microbatch),
        shift=places.shift,
        items=items,
        works=works,
        **columns,
    )


_OWN: Final = -2  # microbatch of what stands in no block: the instruction's own
_NONE: Final = {"bytes": 0, "event": -1, "meeting": 0, "late": -1, "moving": -1, "work": -1, "microbatch": -1}
_KIND: Final = {
    Compute: WORK, Collective: TRANSFER, Send: TRANSFER, Recv: TRANSFER, Wait: WAIT,
    Record: OTHER, Alloc: OTHER, Free: OTHER, Issue: OTHER,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Places:
    """Of each span what `InstructionTable` says, and the instructions by number."""

    number: Int64
    microbatch: Int64
    shift: Int64
    items: list[Instruction]


def _places(timeline: Timeline) -> _Places:
    """Give numbers to the instructions of all streams that have spans: one after the other, blocks once."""
    program, spans, width = timeline.program, timeline.spans, len(timeline.streams)
    role = np.array([rank.role for rank in program.ranks], np.int64)
    lane = role[spans.rank] * width + spans.stream
    offset = np.zeros(len(program.roles) * width, np.int64)
    items: list[Instruction] = []
    known: dict[int, tuple[Sequence[Instruction], int]] = {}  # by identity, which lasts as long as the piece is kept
    pieces: list[tuple[int, int, int, int]] = []  # place of the first instruction, its number, microbatch, shift
    size = 0
    for one in np.flatnonzero(np.bincount(lane)).tolist():
        offset[one] = size
        for first, piece, use in pieces_of(program.roles[one // width].streams[timeline.streams[one % width]]):
            if id(piece) not in known:
                known[id(piece)] = piece, len(items)
                items += piece
            told = (_OWN, 0) if use is None else (use.microbatch, use.event)
            pieces.append((offset[one] + first, known[id(piece)][1], *told))
            size = offset[one] + first + len(piece)
    firsts, numbers, microbatches, shifts = np.array(pieces, np.int64).reshape(-1, 4).T
    place = offset[lane] + spans.instruction
    at = np.searchsorted(firsts, place, "right") - 1
    return _Places(number=numbers[at] + place - firsts[at], microbatch=microbatches[at], shift=shifts[at], items=items)


def _columns(program: Program, items: Sequence[Instruction]) -> tuple[dict[str, Int64], list[Compute]]:
    """Describe instructions, kind by kind: there are millions of them where no two ranks are alike."""
    kind = np.fromiter(map(_KIND.__getitem__, map(type, items)), np.int64, len(items))
    columns = {name: np.full(len(items), value, np.int64) for name, value in _NONE.items()} | {"kind": kind}
    places = {what: np.flatnonzero(kind == what) for what in (WORK, TRANSFER, WAIT)}
    runs = [item for item in items if isinstance(item, Compute)]
    moves = [item for item in items if isinstance(item, (Collective, Send, Recv))]
    kernels = np.array([id(run.kernels) for run in runs], np.int64)  # the Program keeps them
    first, columns["work"][places[WORK]] = as_they_come(kernels)
    columns["microbatch"][places[WORK]] = [run.microbatch for run in runs]
    columns["event"][places[WAIT]] = [item.event for item in items if isinstance(item, Wait)]
    columns["bytes"][places[TRANSFER]] = [move.bytes for move in moves]
    columns["microbatch"][places[TRANSFER]] = [move.microbatch for move in moves]
    names = {name: number for number, name in enumerate(program.communicators)}
    called = np.array([names[move.communicator] for move in moves], np.int64)
    for column, classes in (
        ("late", [late_class(found) for found in program.communicators.values()]),
        ("moving", [exposed(found.axis) for found in program.communicators.values()]),
    ):
        columns[column][places[TRANSFER]] = np.array([PLACE[name] for name in classes], np.int64)[called]
    meetings: dict[tuple[str, str], int] = {}
    columns["meeting"][places[TRANSFER]] = [
        meetings.setdefault((move.communicator, _what(move)), len(meetings)) for move in moves
    ]
    return columns, [runs[at] for at in first.tolist()]


def _what(move: Collective | Send | Recv) -> str:
    """Return what tells the transfers of a communicator apart: sides of a message have one tag."""
    return move.kind if isinstance(move, Collective) else f"tag {move.tag}"
