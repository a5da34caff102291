"""Every model family in training as units, and what a layout must respect."""

from __future__ import annotations

from simgpu.errors import Issue, ScenarioError
from simgpu.workload.architecture import Architecture
from simgpu.workload.decoder import decoder_units
from simgpu.workload.dual_encoder import DualEncoder, dual_encoder_units
from simgpu.workload.encoder import Encoder, encoder_units
from simgpu.workload.encoder_decoder import EncoderDecoder, encoder_decoder_units
from simgpu.workload.layer import ModelUnits
from simgpu.workload.model import Model
from simgpu.workload.resnet import ResNet, resnet_units
from simgpu.workload.shard import Shard
from simgpu.workload.software import DEFAULT, Software
from simgpu.workload.splits import WHOLE, Splits
from simgpu.workload.training import Training
from simgpu.workload.vision import VisionTransformer, vision_units


def model_units(
    model: Architecture,
    training: Training,
    *,
    tp: int = 1,
    sequence_parallel: bool = False,
    cast_weights: bool = False,
    software: Software = DEFAULT,
    gradient_buffers: bool = False,
    gathered_weights: bool = False,
    splits: Splits = WHOLE,
) -> ModelUnits:
    """Return what one rank of a tensor-parallel group runs and keeps for one micro-batch.

    Parameters
    ----------
    model : Architecture
    training : Training
    tp : int
        Tensor-parallel degree.
    sequence_parallel, cast_weights, software, gradient_buffers, gathered_weights, splits
        As `simgpu.workload.shard.Shard` has them.

    Raises
    ------
    ScenarioError
        Lists everything that the layout does not fit.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> training = Training(sequence_length=1, micro_batch_size=32, accumulation=1)
    >>> sum(unit.elements for unit in model_units(bundled_model("resnet-50"), training).units)
    25557032
    """

    def shard_of(blocks: Model, training: Training) -> Shard:
        return Shard(
            model=blocks,
            training=training,
            tp=tp,
            sequence_parallel=sequence_parallel,
            cast_weights=cast_weights,
            software=software,
            gradient_buffers=gradient_buffers,
            gathered_weights=gathered_weights,
            splits=splits,
        )

    if isinstance(model, Model):
        return decoder_units(model, training, shard_of)
    if isinstance(model, Encoder):
        return encoder_units(model, training, shard_of)
    if isinstance(model, EncoderDecoder):
        return encoder_decoder_units(model, training, shard_of)
    if isinstance(model, VisionTransformer):
        return vision_units(model, training, shard_of)
    if isinstance(model, DualEncoder):
        return dual_encoder_units(model, training, shard_of)
    if isinstance(model, ResNet):
        return resnet_units(model, training, cast_weights=cast_weights, replicas=splits.replicas)
    raise TypeError(f"{type(model).__name__} has no units")


def layout_issues(
    model: Architecture,
    training: Training,
    *,
    tp: int = 1,
    sequence_parallel: bool = False,
    software: Software = DEFAULT,
    splits: Splits = WHOLE,
) -> list[Issue]:
    """Return everything that a layout and a recipe do not fit.

    Parameters
    ----------
    model : Architecture
    training : Training
    tp : int
    sequence_parallel : bool
    software : Software
    splits : Splits

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> training = Training(sequence_length=1, micro_batch_size=32, accumulation=1)
    >>> [str(issue) for issue in layout_issues(bundled_model("resnet-50"), training, tp=2)]
    ['parallel.tp = 2: is not modelled for the convolutions of resnet-50; allowed: 1']
    """
    issues = [*_unsplit(model, training, tp), *_undivided(model, splits)]
    if splits.tp_overlap and tp > 1 and training.lora is not None:
        problem = "is not modelled together with LoRA"
        issues.append(Issue(field="parallel.tp_overlap", value="true", problem=problem, allowed="false"))
    if issues:
        return issues
    try:
        model_units(model, training, tp=tp, sequence_parallel=sequence_parallel, software=software, splits=splits)
    except ScenarioError as error:
        return list(error.issues)
    return []


def _undivided(model: Architecture, splits: Splits) -> list[Issue]:
    """Refuse context parallelism for what is no decoder-only transformer, and expert parallelism without experts."""
    if isinstance(model, Model):
        who = f"means nothing to {model.name}, which has no experts"
        given = (("ep", splits.ep if splits.ep > 1 else None, "1"), ("expert_tp", splits.expert_tp, None))
        return [
            Issue(field=f"parallel.{name}", value=str(value), problem=who, allowed=allowed, fix="leave it out")
            for name, value, allowed in given
            if value is not None and model.experts is None
        ]
    asked = (("parallel.cp", splits.cp, "context"), ("parallel.ep", splits.ep, "expert"))
    return [
        Issue(
            field=field, value=str(degree), problem=f"{what} parallelism is not modelled for {model.name}", allowed="1"
        )
        for field, degree, what in asked
        if degree > 1
    ]


def _unsplit(model: Architecture, training: Training, tp: int) -> list[Issue]:
    """Say what is not divided, and what of the recipe means nothing to the model."""
    issues = []
    if training.sync_batch_norm and not isinstance(model, ResNet):
        problem = f"means nothing to {model.name}, which has no batch norm"
        issues.append(Issue(field="training.sync_batch_norm", value="true", problem=problem, fix="leave it out"))
    for field in ("gather_with_grad", "local_loss"):
        if getattr(training, field) and not isinstance(model, DualEncoder):
            problem = f"means nothing to {model.name}, which has no contrastive loss"
            issues.append(Issue(field=f"training.{field}", value="true", problem=problem, fix="leave it out"))
    if isinstance(model, ResNet) and tp > 1:
        problem = f"is not modelled for the convolutions of {model.name}"
        issues.append(Issue(field="parallel.tp", value=str(tp), problem=problem, allowed="1"))
    experts = model.experts if isinstance(model, Model) else None
    imbalance = training.moe_imbalance
    most = 1.0 if experts is None else experts.count / experts.active
    if imbalance > most:
        who = f"means nothing to {model.name}, which has no experts"
        if experts is not None:
            who = f"is more than one expert can get of {experts.active} visits a token, {experts.count} experts"
        issues.append(
            Issue(
                field="training.moe_imbalance",
                value=str(imbalance),
                problem=who,
                allowed="1" if most == 1 else f"1 to {most:g}",
            )
        )
    if training.target_length is not None and not isinstance(model, EncoderDecoder):
        problem = f"means nothing to {model.name}, which has no decoder of its own"
        value = str(training.target_length)
        issues.append(Issue(field="training.target_length", value=value, problem=problem, fix="leave it out"))
    fixed = model.fixed_sequence
    if fixed is not None and training.sequence_length != fixed:
        problem = f"is not the {fixed} of {model.name}, which its images decide"
        value = str(training.sequence_length)
        issues.append(Issue(field="training.sequence_length", value=value, problem=problem, fix="leave it out"))
    return issues
