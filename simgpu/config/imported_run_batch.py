"""Batch arithmetic of an imported run, by the rule and with the message of its own framework."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.errors import Issue, ScenarioError


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Batch fields; None where nobody gives one.

    Parameters
    ----------
    micro : int or None
        Sequences per GPU and forward pass.
    steps : int or None
        Micro-batches per optimizer step.
    total : int or None
        Sequences per optimizer step.
    """

    micro: int | None = None
    steps: int | None = None
    total: int | None = None


def complete_batch(batch: Batch, dp: int, rule: str, source: str) -> Batch:
    """Complete the fields as a framework does.

    Parameters
    ----------
    batch : Batch
    dp : int
        Data-parallel ranks.
    rule : str
        ``trainer`` (Transformers' with DeepSpeed), ``deepspeed``, ``composer``, ``megatron``, or anything else for a
        plain product.
    source : str
        The file that is to blame.

    Returns
    -------
    Batch
        With all three.

    Raises
    ------
    ScenarioError
        In the framework's words: huggingface/transformers ``integrations/deepspeed.py``; deepspeedai/DeepSpeed
        ``runtime/config.py``, ``_batch_assertion``; NVIDIA/Megatron-LM
        ``megatron/core/num_microbatches_calculator.py``; mosaicml/composer ``trainer/trainer.py``.

    Examples
    --------
    >>> complete_batch(Batch(micro=4, total=32), 8, "deepspeed", "ds.json")
    Batch(micro=4, steps=1, total=32)
    >>> complete_batch(Batch(micro=4, total=32), 6, "deepspeed", "ds.json")
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: ds.json: train_batch_size = 32: Check batch related parameters. train_batch_size is ...
    """
    if rule == "trainer" and batch.total is not None and batch.micro and batch.steps:
        _check_trainer(batch.micro * batch.steps * dp, batch.total, source)
    if rule in ("trainer", "deepspeed"):
        return _deepspeed(batch, dp, source)
    if rule == "composer" and batch.total is not None:
        return _composer(batch, batch.total, dp, source)
    if batch.total is None:
        one, count = batch.micro or 1, batch.steps or 1
        return Batch(micro=one, steps=count, total=one * count * dp)
    micro = batch.micro
    steps = batch.steps
    if micro is None:
        micro = batch.total // (dp * (steps or 1))
    if steps is None:
        steps = batch.total // (micro * dp) if micro else 0
    if micro < 1 or steps < 1 or micro * steps * dp != batch.total:
        problem = (
            f"global batch size ({batch.total}) is not divisible by micro batch size ({micro}) times data parallel "
            f"size ({dp})"
        )
        if batch.micro and batch.steps:
            problem = f"is not micro-batch x accumulation x data-parallel ranks = {micro} x {steps} x {dp}"
        raise _refused("training.global_batch_size", batch.total, problem, source, _fitting(batch, dp))
    return Batch(micro=micro, steps=steps, total=batch.total)


def _check_trainer(calculated: int, total: int, source: str) -> None:
    if calculated != total:
        problem = (
            "Please correct the following DeepSpeed config values that mismatch TrainingArguments values: "
            f"ds train_batch_size={total} vs hf train_batch_size (calculated)={calculated}"
        )
        raise _refused("train_batch_size", total, problem, source, "set it to 'auto'")


def _deepspeed(batch: Batch, dp: int, source: str) -> Batch:
    micro, steps, total = batch.micro, batch.steps, batch.total
    if total is None:
        micro, steps = micro or 1, steps or 1
        return Batch(micro=micro, steps=steps, total=micro * steps * dp)
    if micro is None:
        steps = steps or 1
        micro = total // dp // steps
    elif steps is None:
        steps = total // micro // dp
    if micro < 1:
        problem = f"Micro batch size per gpu: {micro} has to be greater than 0"
        raise _refused("train_batch_size", total, problem, source, _fitting(batch, dp))
    if not steps or micro * steps * dp != total:
        problem = (
            "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step "
            f"* world_size {total} != {micro} * {steps} * {dp}"
        )
        raise _refused("train_batch_size", total, problem, source, _fitting(batch, dp))
    return Batch(micro=micro, steps=steps, total=total)


def _composer(batch: Batch, total: int, dp: int, source: str) -> Batch:
    if total % dp:
        problem = f"The global batch size is not divisible by the {dp} ranks"
        raise _refused("global_train_batch_size", total, problem, source, _fitting(batch, dp))
    per_device = total // dp
    micro = min(batch.micro or per_device, per_device)
    if per_device % micro:
        problem = f"leaves {per_device} sequences to a GPU, whose last micro-batch would not have {micro}"
        raise _refused("global_train_batch_size", total, problem, source, _fitting(batch, dp))
    return Batch(micro=micro, steps=per_device // micro, total=total)


def _fitting(batch: Batch, dp: int) -> str:
    """Say for how many data-parallel ranks the batch does fit."""
    unit = (batch.micro or 1) * (batch.steps or 1)
    total = batch.total or 0
    ranks = [size for size in range(1, min(total, 4096) + 1) if total % (unit * size) == 0]
    if batch.micro and batch.steps:
        ranks = [size for size in ranks if total == unit * size]
    near = sorted(ranks, key=lambda size: abs(size - dp))[:3]
    return f"use {' or '.join(map(str, sorted(near)))} data-parallel ranks" if near else "mend the batch fields"


def _refused(field: str, value: int, problem: str, source: str, fix: str) -> ScenarioError:
    return ScenarioError([Issue(field=field, value=str(value), problem=problem, fix=fix, file=source)])
