"""What every stream was doing at every nanosecond of the step: the table behind breakdowns and Gantts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, overload

from simgpu.program import Communicator

COMPUTE_CLASSES = ("gemm", "attention", "memory_bound", "recompute", "optimizer")
AXES = ("tp", "cp", "ep", "pp", "dp")
CLASSES = (
    *(f"compute.{name}" for name in COMPUTE_CLASSES),
    *(f"exposed.{axis}" for axis in AXES),
    "bubble",
    "straggler",
    "host",
)
"""The accounting classes of DESIGN section 4, in the order reports show them."""
PLACE: Final = {name: place for place, name in enumerate(CLASSES)}
"""Index into CLASSES."""


def exposed(axis: str) -> str:
    """Return the class of a wait for a transfer of an axis.

    Examples
    --------
    >>> exposed("dp"), exposed("host")
    ('exposed.dp', 'host')
    """
    return "host" if axis == "host" else f"exposed.{axis}"


def late_class(communicator: Communicator) -> str:
    """Return the class of a wait for a late member of a group."""
    return "bubble" if communicator.spans_stages else "straggler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stretch of one stream, times relative to the start of the step.

    Parameters
    ----------
    kind : str
        ``compute`` (kernels run), ``transfer`` (bytes move), ``rendezvous`` (a communication stream waits for its
        partners) or ``wait`` (the compute stream waits; ``accounting`` says for what).
    accounting : tuple of (str, int)
        Nanoseconds by class of CLASSES; they sum to the length on the compute stream, and are empty elsewhere.
    name : str
        ``forward 3``, ``all_reduce``, ...
    phase : str
        ``forward``, ``backward``, ``recompute``, ``optimizer`` or empty.
    microbatch : int
        -1 when there is none.
    axis : str
        Axis of a transfer, else empty.
    bytes : int
        Payload of a transfer.
    reason : str
        For people: what a wait waited for, which collective a transfer is.
    """

    rank: int
    stream: str
    start_ns: int
    end_ns: int
    kind: str
    name: str
    accounting: tuple[tuple[str, int], ...] = ()
    phase: str = ""
    microbatch: int = -1
    axis: str = ""
    bytes: int = 0
    reason: str = ""

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(slots=True, eq=False)
class LazyBars(Sequence[Bar]):
    """Bars that are made when they are looked at: most runs are summed up and never drawn."""

    make: Callable[[], Sequence[Bar]]
    _made: Sequence[Bar] | None = None

    @property
    def all(self) -> Sequence[Bar]:
        """The bars themselves, as columns."""
        if self._made is None:
            self._made = self.make()
        return self._made

    def __len__(self) -> int:
        return len(self.all)

    @overload
    def __getitem__(self, index: int) -> Bar: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Bar]: ...
    def __getitem__(self, index: int | slice) -> Bar | Sequence[Bar]:
        return self.all[index]

    def __iter__(self) -> Iterator[Bar]:
        return iter(self.all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self.all) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self.all))

    def __repr__(self) -> str:
        return repr(tuple(self.all))

    def __reduce__(self) -> tuple[type[tuple[Bar, ...]], tuple[tuple[Bar, ...]]]:
        return tuple, (tuple(self.all),)
