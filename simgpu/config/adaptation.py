"""Checks of what is trained and what is frozen."""

from __future__ import annotations

from simgpu.config.findings import Findings
from simgpu.config.near import did_you_mean
from simgpu.config.training_block import TrainingBlock
from simgpu.workload.architecture import Architecture
from simgpu.workload.families import model_units
from simgpu.workload.frozen import trained_units, unmatched_names
from simgpu.workload.lora import ALL_LINEAR, PROJECTIONS, SAVED, adapters
from simgpu.workload.model import Model
from simgpu.workload.synthetic import SyntheticModel
from simgpu.workload.training import Training


def check_adaptation(
    model: Architecture | SyntheticModel, training: Training, block: TrainingBlock, findings: Findings
) -> None:
    """Note names that no weight has, adapters that fit nothing, and what trains nothing at all.

    Parameters
    ----------
    model : Architecture or SyntheticModel
    training : Training
    block : TrainingBlock
    findings : Findings
    """
    if block.frozen is None and block.lora is None:
        return
    field = "training.lora" if block.lora is not None else "training.frozen"
    if not isinstance(model, Architecture):
        findings.add(field, "means nothing to a synthetic model, which has no weights", fix="leave it out")
        return
    if block.lora is not None and block.frozen is not None:
        findings.add("training.frozen", "has no effect: with lora only adapters are trained", fix="leave it out")
        return
    parts = model_units(model, training)
    unknown = unmatched_names(parts, training.frozen_names)
    if unknown:
        kinds = dict.fromkeys(unit.kind for unit in parts.units)
        names = dict.fromkeys(p.name for unit in parts.units for p in unit.parameters)
        problem = f"names no weight of {model.name}: {', '.join(unknown)}"
        findings.add(field, problem, allowed=f"a share, or parts of {', '.join([*kinds, *names][:12])}, ...")
        return
    if not _check_lora(model, training, findings):
        return
    adapted = trained_units(parts, model, training)
    if not any(not p.frozen for unit in adapted.units for p in unit.parameters):
        findings.add(field, "leaves nothing to train", fix="freeze fewer weights")


def _check_lora(model: Architecture, training: Training, findings: Findings) -> bool:
    lora = training.lora
    if lora is None:
        return True
    known = [*PROJECTIONS, ALL_LINEAR]
    field = "training.lora.targets"
    if not lora.targets:
        fix = f"name a projection, or leave targets out for {ALL_LINEAR}"
        findings.add(field, "is an empty list: nothing would be trained", allowed=", ".join(known), fix=fix)
        return False
    wrong = [target for target in lora.targets if target not in known]
    if wrong:
        problem = f"names no projection: {', '.join(wrong)}"
        findings.add(field, problem, allowed=", ".join(known), fix=did_you_mean(wrong[0], known))
        return False
    whole = [name for name in lora.modules_to_save if name not in SAVED]
    if whole:
        problem = f"names no module that can be trained whole: {', '.join(whole)}"
        meant = did_you_mean(whole[0], SAVED)
        findings.add("training.lora.modules_to_save", problem, allowed=", ".join(SAVED), fix=meant)
        return False
    block = model_units(model, training).layers[0].units[0] if isinstance(model, Model) else None
    if block is None or not isinstance(model, Model) or not adapters(block, model, lora):
        problem = f"has no projection of {model.name} to adapt"
        findings.add("training.lora", problem, fix="use other targets, or training.frozen")
        return False
    return True
