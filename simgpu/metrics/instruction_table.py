"""The instructions that spans executed, as columns: of every span a number, of every number what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, overload

import numpy as np

from simgpu.lower.stretching import StretchedStream
from simgpu.metrics.activity import PLACE, exposed, late_class
from simgpu.metrics.numbering import as_they_come
from simgpu.metrics.work_kernels import WorkKernels
from simgpu.program import Alloc, Collective, Compute, Free, Instruction, Issue, Program, Record, Recv, Send, Wait
from simgpu.script import pieces_of
from simgpu.timeline import Int64, Timeline

OTHER, WORK, TRANSFER, WAIT = range(4)
"""What an instruction is to metrics: kernels, a transfer between ranks, a wait for an event, or anything else."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InstructionTable:
    """What the spans of a Timeline executed; an instruction of a block has one number wherever it is used.

    Parameters
    ----------
    number, microbatch, shift : (spans,) int64
        Of each span: the number of its instruction, the microbatch it works on (-1 for none), and what is added to
        the event that it waits for.
    items : Executed
        By number, as they stand in their blocks.
    kind, bytes, event, meeting : (n,) int64
        By number: WORK, TRANSFER, WAIT or OTHER; payload of a transfer; event that a wait is for; number of a
        transfer's communicator, kind and tag.
    late, moving : (n,) int64
        By number: classes of a wait for a transfer before and after its last member is there; -1 for what is none.
    work : (n,) int64
        By number: index into ``works``, -1 for what has no kernels.
    works : sequence of Compute
        One of those that run the same kernels.
    kernels : WorkKernels
        Those of ``works``.
    """

    number: Int64
    microbatch: Int64
    shift: Int64
    items: Executed
    kind: Int64
    bytes: Int64
    event: Int64
    meeting: Int64
    late: Int64
    moving: Int64
    work: Int64
    works: Sequence[Compute]
    kernels: WorkKernels


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
    items = Executed(places.pieces, places.firsts, used)
    originals, origin = _originals(places, items)
    columns, kernels = _columns(timeline.program, originals)
    columns = {name: column[origin] for name, column in columns.items()}
    own = columns.pop("microbatch")
    works, columns["work"] = _works(items, columns["kind"], kernels[origin])
    return InstructionTable(
        number=number,
        microbatch=np.where(places.microbatch == _OWN, own[number], places.microbatch),
        shift=places.shift,
        items=items,
        works=works.works,
        kernels=works,
        **columns,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Executed(Sequence[Instruction]):
    """Instructions by number; those of ranks with times of their own are made when they are asked for.

    Parameters
    ----------
    pieces : list of sequence of Instruction
    firsts : (pieces,) int64
        Place of the first one of each piece, were they all in one list.
    places : (n,) int64
        Of each number.
    """

    pieces: list[Sequence[Instruction]]
    firsts: Int64
    places: Int64

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Instruction: ...
    @overload
    def __getitem__(self, index: slice) -> list[Instruction]: ...
    def __getitem__(self, index: int | slice) -> Instruction | list[Instruction]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        place = int(self.places[index])
        piece = int(np.searchsorted(self.firsts, place, "right")) - 1
        return self.pieces[piece][place - int(self.firsts[piece])]

    def where(self) -> tuple[Int64, Int64]:
        """Return the piece of each number, and its position there."""
        piece = np.searchsorted(self.firsts, self.places, "right") - 1
        return piece, self.places - self.firsts[piece]


@dataclass(frozen=True, slots=True, eq=False)
class Works(Sequence[Compute]):
    """Those of executed instructions that run kernels.

    Parameters
    ----------
    items : Executed
    numbers : (n,) int64
        Among those.
    """

    items: Executed
    numbers: Int64

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Compute: ...
    @overload
    def __getitem__(self, index: slice) -> list[Compute]: ...
    def __getitem__(self, index: int | slice) -> Compute | list[Compute]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        found = self.items[int(self.numbers[index])]
        assert isinstance(found, Compute)  # these are the numbers of
        return found


_OWN: Final = -2  # microbatch of what stands in no block: the instruction's own
_NONE: Final = {"bytes": 0, "event": -1, "meeting": 0, "late": -1, "moving": -1, "microbatch": -1}
_KIND: Final = {
    Compute: WORK, Collective: TRANSFER, Send: TRANSFER, Recv: TRANSFER, Wait: WAIT,
    Record: OTHER, Alloc: OTHER, Free: OTHER, Issue: OTHER,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Places:
    """Of each span what `InstructionTable` says, and the pieces that instructions stand in, one after the other."""

    number: Int64
    microbatch: Int64
    shift: Int64
    pieces: list[Sequence[Instruction]]
    firsts: Int64


def _places(timeline: Timeline) -> _Places:
    """Give numbers to the instructions of all streams that have spans: one after the other, blocks once."""
    program, spans, width = timeline.program, timeline.spans, len(timeline.streams)
    role = np.array([rank.role for rank in program.ranks], np.int64)
    lane = role[spans.rank] * width + spans.stream
    offset = np.zeros(len(program.roles) * width, np.int64)
    known: dict[int, int] = {}  # place of a piece by identity, which lasts as long as the piece is kept
    kept: list[Sequence[Instruction]] = []
    used: list[tuple[int, int, int, int]] = []  # place of the first instruction, its number, microbatch, shift
    size = total = 0
    for one in np.flatnonzero(np.bincount(lane)).tolist():
        offset[one] = size
        stream = program.roles[one // width].streams[timeline.streams[one % width]]
        whole = isinstance(stream, StretchedStream)
        for first, piece, use in [(0, stream, None)] if whole else pieces_of(stream):
            if id(piece) not in known:
                known[id(piece)] = total
                kept.append(piece)
                total += len(piece)
            told = (_OWN, 0) if use is None else (use.microbatch, use.event)
            used.append((offset[one] + first, known[id(piece)], *told))
            size = offset[one] + first + len(piece)
    firsts, numbers, microbatches, shifts = np.array(used, np.int64).reshape(-1, 4).T
    place = offset[lane] + spans.instruction
    at = np.searchsorted(firsts, place, "right") - 1
    return _Places(
        number=numbers[at] + place - firsts[at],
        microbatch=microbatches[at],
        shift=shifts[at],
        pieces=kept,
        firsts=np.cumsum([0, *map(len, kept)])[:-1],
    )


def _originals(places: _Places, items: Executed) -> tuple[list[Instruction], Int64]:
    """Return what executed instructions were made of, each once, and which of these is whose."""
    originals: list[Instruction] = []
    known: dict[int, int] = {}
    begins = []
    for piece in places.pieces:
        original = piece.outline.instructions if isinstance(piece, StretchedStream) else piece
        if id(original) not in known:
            known[id(original)] = len(originals)
            originals += original
        begins.append(known[id(original)])
    of, position = items.where()
    return originals, np.array(begins, np.int64)[of] + position


def _works(items: Executed, kind: Int64, kernels: Int64) -> tuple[WorkKernels, Int64]:
    """Give numbers to what runs kernels; those that run the same share one.

    Parameters
    ----------
    items : Executed
    kind, kernels : (n,) int64
        Of each: what it is, and the identity of the original's kernels.

    Returns
    -------
    WorkKernels
    (n,) int64
        Of each, -1 for what runs none.
    """
    piece, position = items.where()
    stretched = [number for number, found in enumerate(items.pieces) if isinstance(found, StretchedStream)]
    stream = np.full(len(items.pieces), -1, np.int64)
    stream[stretched] = np.arange(len(stretched))
    runs = np.flatnonzero(kind == WORK)
    own = stream[piece[runs]]
    first, which = as_they_come(np.where(own < 0, kernels[runs], -1 - runs))
    number = np.full(len(items), -1, np.int64)
    number[runs] = which
    streams = [found for found in items.pieces if isinstance(found, StretchedStream)]
    return WorkKernels(Works(items, runs[first]), own[first], position[runs[first]], streams), number


def _columns(program: Program, items: Sequence[Instruction]) -> tuple[dict[str, Int64], Int64]:
    """Describe instructions, kind by kind; also what tells their kernels apart."""
    kind = np.fromiter(map(_KIND.__getitem__, map(type, items)), np.int64, len(items))
    columns = {name: np.full(len(items), value, np.int64) for name, value in _NONE.items()} | {"kind": kind}
    places = {what: np.flatnonzero(kind == what) for what in (WORK, TRANSFER, WAIT)}
    runs = [item for item in items if isinstance(item, Compute)]
    moves = [item for item in items if isinstance(item, (Collective, Send, Recv))]
    kernels = np.zeros(len(items), np.int64)
    kernels[places[WORK]] = [id(run.kernels) for run in runs]  # the Program keeps them
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
    return columns, kernels


def _what(move: Collective | Send | Recv) -> str:
    """Return what tells the transfers of a communicator apart: sides of a message have one tag."""
    return move.kind if isinstance(move, Collective) else f"tag {move.tag}"
