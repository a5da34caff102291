"""A Piece: a part of a unit with its forward, its backward and what it keeps between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simgpu.workload.unit import Exchange, GradientReady, Join, Parameter, PassItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Consecutive work of one unit; ``backward`` is in backward order.

    Parameters
    ----------
    parameters : tuple of Parameter
    forward, backward : tuple of PassItem
    saved_bytes : int
        Kept from forward to backward.

    Examples
    --------
    >>> Piece.chain([Piece(saved_bytes=2), Piece(saved_bytes=3)]).saved_bytes
    5
    """

    parameters: tuple[Parameter, ...] = ()
    forward: tuple[PassItem, ...] = ()
    backward: tuple[PassItem, ...] = ()
    saved_bytes: int = 0

    @staticmethod
    def chain(pieces: Iterable[Piece]) -> Piece:
        """Join pieces that run one after another; their backwards run in the opposite order."""
        pieces = tuple(pieces)
        return Piece(
            parameters=tuple(p for piece in pieces for p in piece.parameters),
            forward=tuple(item for piece in pieces for item in piece.forward),
            backward=tuple(item for piece in reversed(pieces) for item in piece.backward),
            saved_bytes=sum(piece.saved_bytes for piece in pieces),
        )


def blocking(kind: str, payload_bytes: int, tag: str, axis: str = "tp") -> tuple[PassItem, ...]:
    """Return an exchange that is waited for at once.

    Parameters
    ----------
    kind : str
        As `simgpu.workload.unit.Exchange` has it.
    payload_bytes : int
        Payload of the whole collective.
    tag : str
        Unique within the pass.
    axis : str
        Communicator.

    Examples
    --------
    >>> [type(item).__name__ for item in blocking("all_reduce", 8, "out")]
    ['Exchange', 'Join']
    """
    return (Exchange(kind=kind, bytes=payload_bytes, tag=tag, axis=axis), Join(tag=tag))


def ready(*parameters: Parameter | None) -> GradientReady:
    """Return the mark that the gradients of these parameters (absent ones skipped) are final.

    Examples
    --------
    >>> ready(Parameter(name="w", elements=1, total=1), None).parameters
    ('w',)
    """
    return GradientReady(parameters=tuple(p.name for p in parameters if p is not None))
