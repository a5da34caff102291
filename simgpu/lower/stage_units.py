"""The units of one pipeline stage, and its weights in gradient-ready order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from simgpu.parallel.data_parallel import Gradient, StageWeights
from simgpu.parallel.stages import Stage
from simgpu.workload.layer import ModelUnits
from simgpu.workload.unit import GradientReady, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class StageUnits:
    """Units in execution order with their names, and the weights behind them.

    ``copies`` are the elements of those trained weights of this stage that units of other stages use too, by name;
    ``tied_elements`` counts those of which a stage of another rank has a copy.
    """

    units: tuple[Unit, ...]
    names: tuple[str, ...]
    weights: StageWeights
    message_bytes: int = 0  # what one rank hands to the next stage
    copies: Mapping[str, int] = field(default_factory=dict)
    tied_elements: int = 0

    @property
    def replicated_elements(self) -> int:
        """Trained weights that every tensor-parallel rank holds in full, such as norms."""
        return sum(p.elements for unit in self.units for p in unit.parameters if p.replicated and not p.frozen)

    @property
    def buffer_bytes(self) -> int:
        """Running statistics of batch norms."""
        return sum(unit.buffer_bytes for unit in self.units)

    @property
    def fp8_elements(self) -> int:
        """Weights whose GEMMs read an fp8 copy."""
        return sum(p.elements for unit in self.units for p in unit.parameters if p.fp8)

    @property
    def fp8_tensors(self) -> int:
        """Number of those weights."""
        return sum(p.fp8 for unit in self.units for p in unit.parameters)


def model_stage(
    parts: ModelUnits, stage: Stage, first_layer: int, *, held: frozenset[str] = frozenset(), received_bytes: int = 0
) -> StageUnits:
    """Pick the units of a stage out of a model, whose layers may differ.

    A weight that units of several stages use, such as a tied head, is one tensor on each rank that holds such stages.

    Parameters
    ----------
    parts : ModelUnits
    stage : Stage
    first_layer : int
        Index of the stage's first layer.
    held : frozenset of str
        Shared weights that earlier stages hold on the same rank.
    received_bytes : int
        What the stage before hands on; a stage without layers hands on the same.
    """
    layers = parts.layers[first_layer : first_layer + stage.blocks]
    named = [("embedding", parts.embedding)] if stage.first else []
    if layers and not stage.first and layers[0].entry is not None:
        named.append((f"entry of {layers[0].name}", layers[0].entry))
    named += [pair for layer in layers for pair in layer.named_units]
    if stage.last:
        named.append(("head", parts.head))
    units = [unit for _, unit in named]
    shared = shared_weights(parts.units)
    copies = {p.tied or p.name: p.elements for unit in units for p in unit.parameters if not p.frozen}
    passed = parts.embedding.output_bytes if stage.first else received_bytes
    return StageUnits(
        units=tuple(units),
        names=tuple(name for name, _ in named),
        weights=stage_weights(units, held=held),
        message_bytes=layers[-1].units[-1].output_bytes + layers[-1].carried_bytes if layers else passed,
        copies={name: size for name, size in copies.items() if name in shared - held},
    )


def shared_weights(units: Iterable[Unit]) -> frozenset[str]:
    """Return the names of weights that other units use as theirs.

    Examples
    --------
    >>> from simgpu.workload.unit import Parameter
    >>> head = Parameter(name="head.weight", elements=4, total=4, tied="embedding.weight")
    >>> sorted(shared_weights([Unit(kind="head", parameters=(head,), forward=(), backward=())]))
    ['embedding.weight']
    """
    return frozenset(p.tied for unit in units for p in unit.parameters if p.tied is not None)


def synthetic_stage(unit: Unit, stage: int) -> StageUnits:
    """Wrap the single unit of a synthetic model's stage; it has no weights."""
    return StageUnits(
        units=(unit,),
        names=(f"stage {stage}",),
        weights=StageWeights(kinds=(unit.kind,), gradients=()),
        message_bytes=unit.output_bytes,
    )


def stage_weights(units: Sequence[Unit], *, held: frozenset[str] = frozenset()) -> StageWeights:
    """List the weights of a stage as backward completes their gradients.

    Parameters
    ----------
    units : sequence of Unit
    held : frozenset of str
        Shared weights that are there already: a unit that uses one, or one that an earlier unit of the stage
        registers, has none of its own.
    """
    elsewhere, seen = [], set(held)
    for unit in units:
        elsewhere.append({p.name for p in unit.parameters if p.tied in seen})
        seen.update(p.tied or p.name for p in unit.parameters)
    gradients, frozen, tied = [], [], {}
    for index in reversed(range(len(units))):
        sizes = {p.name: p for p in units[index].parameters}
        shared = elsewhere[index]
        if shared:
            tied[index] = sum(sizes[name].elements for name in shared)
        frozen += [
            Gradient(unit=index, name=p.name, elements=p.elements)
            for p in units[index].parameters
            if p.frozen and p.name not in shared
        ]
        for item in units[index].backward:
            if isinstance(item, GradientReady):
                gradients += [
                    Gradient(unit=index, name=name, elements=sizes[name].elements, vector=sizes[name].vector)
                    for name in reversed(item.parameters)  # a bias's gradient is stored before its product's
                    if name not in shared
                ]
    return StageWeights(
        kinds=tuple(unit.kind for unit in units),
        gradients=tuple(gradients),
        frozen=tuple(frozen),
        asleep=frozenset(i for i, unit in enumerate(units) if not unit.backward),
        tied=tied,
        buffer_bytes=sum(unit.buffer_bytes for unit in units),
    )
