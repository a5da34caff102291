"""A model in training as units: embedding, layers, head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from simgpu.workload.piece import Piece
from simgpu.workload.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What a pipeline moves as one: usually a single block.

    Equal layers share their Unit objects, so that a deep model costs no more than its kinds of layers.

    Parameters
    ----------
    name : str
    units : tuple of Unit
    entry : Unit or None
        What a pipeline stage that begins with this layer runs before it; the model's first stage does not.
    carried_bytes : int
        What a stage that ends with this layer hands on besides the layer's output.
    """

    name: str
    units: tuple[Unit, ...]
    entry: Unit | None = None
    carried_bytes: int = 0

    @property
    def named_units(self) -> Iterator[tuple[str, Unit]]:
        """The units with names: the layer's own for its block, with the kind before it for others."""
        for unit in self.units:
            yield self.name if unit.kind == "block" else f"{unit.kind} of {self.name}", unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUnits:
    """The units of a whole model in execution order.

    Examples
    --------
    >>> empty = {"parameters": (), "forward": (), "backward": ()}
    >>> block = Layer(name="block 0", units=(Unit(kind="block", **empty),))
    >>> whole = ModelUnits(embedding=Unit(kind="embedding", **empty), layers=(block, block),
    ...                    head=Unit(kind="head", **empty))
    >>> [unit.kind for unit in whole.units]
    ['embedding', 'block', 'block', 'head']
    """

    embedding: Unit
    layers: tuple[Layer, ...]
    head: Unit

    @property
    def units(self) -> tuple[Unit, ...]:
        """All units, repeated ones as often as they run."""
        return (self.embedding, *(unit for layer in self.layers for unit in layer.units), self.head)


def followed_by(unit: Unit, piece: Piece) -> Unit:
    """Return a unit with more work at its end; its backward comes first.

    Examples
    --------
    >>> unit = Unit(kind="embedding", parameters=(), forward=(), backward=(), saved_bytes=1)
    >>> followed_by(unit, Piece(saved_bytes=2)).saved_bytes
    3
    """
    return replace(
        unit,
        parameters=unit.parameters + piece.parameters,
        forward=unit.forward + piece.forward,
        backward=piece.backward + unit.backward,
        saved_bytes=unit.saved_bytes + piece.saved_bytes,
    )
