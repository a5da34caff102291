"""The units of one pipeline stage, and its weights in gradient-ready order."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.parallel.data_parallel import Gradient, StageWeights
from simgpu.parallel.stages import Stage
from simgpu.workload.transformer import Units
from simgpu.workload.unit import GradientReady, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class StageUnits:
    """Units in execution order with their names, and the weights behind them."""

    units: tuple[Unit, ...]
    names: tuple[str, ...]
    weights: StageWeights
    message_bytes: int = 0  # what one rank hands to the next stage
    tied_elements: int = 0  # elements of a weight that another stage holds too

    @property
    def replicated_elements(self) -> int:
        """Weights that every tensor-parallel rank holds in full, such as norms."""
        return sum(p.elements for unit in self.units for p in unit.parameters if p.replicated)


def transformer_stage(parts: Units, stage: Stage, first_block: int) -> StageUnits:
    """Pick the units of a stage out of a transformer.

    A tied head is the embedding's own weight when both are on one stage; on two stages each keeps a copy.
    """
    units, names = [], []
    if stage.first:
        units.append(parts.embedding)
        names.append("embedding")
    units += [parts.block] * stage.blocks
    names += [f"block {first_block + i}" for i in range(stage.blocks)]
    if stage.last:
        units.append(parts.head)
        names.append("head")
    together = stage.first and stage.last
    tied = [p for p in parts.head.parameters if p.tied is not None]
    crosses = bool(tied) and not together and (stage.first or stage.last)
    return StageUnits(
        units=tuple(units),
        names=tuple(names),
        weights=stage_weights(units, together=together),
        message_bytes=parts.block.output_bytes,
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
        Embedding and head are both here, so that a tied head is the embedding's weight and counts once.
    """
    gradients, tied = [], {}
    for index in reversed(range(len(units))):
        sizes = {p.name: p for p in units[index].parameters}
        shared = {p.name for p in units[index].parameters if together and p.tied is not None}
        if shared:
            tied[index] = sum(sizes[name].elements for name in shared)
        for item in units[index].backward:
            if isinstance(item, GradientReady):
                gradients += [
                    Gradient(unit=index, name=name, elements=sizes[name].elements)
                    for name in item.parameters
                    if name not in shared
                ]
    return StageWeights(kinds=tuple(unit.kind for unit in units), gradients=tuple(gradients), tied=tied)
