"""The units of one pipeline stage, and its weights in gradient-ready order."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.parallel.data_parallel import Gradient, StageWeights
from simgpu.parallel.stages import Stage
from simgpu.workload.layer import ModelUnits
from simgpu.workload.unit import GradientReady, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class StageUnits:
    """Units in execution order with their names, and the weights behind them.

    ``tied_elements`` counts a weight that a stage of another rank holds too.
    """

    units: tuple[Unit, ...]
    names: tuple[str, ...]
    weights: StageWeights
    message_bytes: int = 0  # what one rank hands to the next stage
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


def model_stage(parts: ModelUnits, stage: Stage, first_layer: int, *, together: bool) -> StageUnits:
    """Pick the units of a stage out of a model, whose layers may differ.

    A tied head is the embedding's own weight when both are on one rank; on two ranks each keeps a copy.

    Parameters
    ----------
    parts : ModelUnits
    stage : Stage
    first_layer : int
        Index of the stage's first layer.
    together : bool
        The first and the last stage are on one rank.
    """
    layers = parts.layers[first_layer : first_layer + stage.blocks]
    named = [("embedding", parts.embedding)] if stage.first else []
    named += [pair for layer in layers for pair in layer.named_units]
    if stage.last:
        named.append(("head", parts.head))
    tied = [p for p in parts.head.parameters if p.tied is not None and not p.frozen]
    crosses = bool(tied) and not together and (stage.first or stage.last)
    units = [unit for _, unit in named]
    return StageUnits(
        units=tuple(units),
        names=tuple(name for name, _ in named),
        weights=stage_weights(units, together=together),
        message_bytes=layers[-1].units[-1].output_bytes,
        tied_elements=sum(p.elements for p in tied) if crosses else 0,
    )


def synthetic_stage(unit: Unit, stage: int) -> StageUnits:
    """Wrap the single unit of a synthetic model's stage; it has no weights."""
    return StageUnits(
        units=(unit,),
        names=(f"stage {stage}",),
        weights=StageWeights(kinds=(unit.kind,), gradients=()),
        message_bytes=unit.output_bytes,
    )


def stage_weights(units: list[Unit], *, together: bool) -> StageWeights:
    """List the weights of a stage as backward completes their gradients.

    Parameters
    ----------
    units : list of Unit
    together : bool
        Embedding and head are on one rank, so that a tied head is the embedding's weight and counts once.
    """
    gradients, frozen, tied = [], [], {}
    for index in reversed(range(len(units))):
        sizes = {p.name: p for p in units[index].parameters}
        shared = {p.name for p in units[index].parameters if together and p.tied is not None}
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
                    Gradient(unit=index, name=name, elements=sizes[name].elements)
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
