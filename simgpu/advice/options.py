"""What frameworks call the levers: ``simgpu/data/lever_options.csv``, one row per framework and lever."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from simgpu.config.case import Case
from simgpu.hardware.table import read_table

_BASES: Final = dict.fromkeys(("accelerate", "deepspeed", "llamafactory", "ms-swift"), "trainer")
"""Frameworks that take another one's options beside their own."""


def framework(case: Case) -> str:
    """Return whose options a case is set with: the scenario's ``framework``, else what its strategy points to.

    Returns
    -------
    str
        ``megatron``, ``deepspeed``, ``accelerate`` or ``trainer`` where the scenario names none.

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> [framework(case) for case in load_cases("four_vs_eight")]
    ['accelerate', 'accelerate', 'trainer']
    """
    kind = case.strategy.data_parallel
    if case.framework is not None:
        return case.framework
    if case.strategy.megatron or kind == "distributed_optimizer":
        return "megatron"
    return "deepspeed" if kind.startswith("zero") else "accelerate" if kind.startswith(("fsdp", "hsdp")) else "trainer"


@cache
def lever_options(name: str) -> Mapping[str, str]:
    """Return what a framework calls its levers; those that it lacks are absent.

    Parameters
    ----------
    name : str
        Of the framework.

    Returns
    -------
    mapping of str to str
        Templates for `filled`, by lever.

    Examples
    --------
    >>> lever_options("litgpt")
    {'micro_batch': 'train.micro_batch_size: {micro}', 'accumulation': 'train.global_batch_size: {batch}'}
    >>> lever_options("deepspeed")["recompute.full"]
    'gradient_checkpointing: true'
    """
    own = {row["lever"]: row["option"] for row in read_table("lever_options.csv") if row["framework"] == name}
    return {**lever_options(_BASES[name]), **own} if name in _BASES else own


def frameworks() -> tuple[str, ...]:
    """Return the names of all frameworks.

    Examples
    --------
    >>> {"megatron", "torchtitan"} <= set(frameworks())
    True
    """
    return tuple(dict.fromkeys([*(row["framework"] for row in read_table("lever_options.csv")), *_BASES]))


def filled(template: str, case: Case) -> str:
    """Write the numbers of a changed case into an option.

    Parameters
    ----------
    template : str
    case : Case
        After the change.

    Returns
    -------
    str

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> filled("train.global_batch_size: {batch}", load_cases("four_vs_eight")[0])
    'train.global_batch_size: 64'
    """
    strategy, training = case.strategy, case.training
    run = strategy.pipeline_microbatches or training.accumulation
    joined = lever_options(framework(case)).get(f"sharding.{strategy.data_parallel}", "")
    if "{degrees}" in template:  # frameworks that are told the data-parallel ranks: how replicas are joined says them
        template = template.replace("{degrees}", joined) if joined else template.replace("{degrees}, ", "")
    ddp = strategy.data_parallel == "ddp"
    chunks = strategy.pp * strategy.virtual_stages
    shard = strategy.dp // strategy.sub_groups
    return template.format(
        micro=training.micro_batch_size,
        steps=training.accumulation,
        run=run,
        local=training.micro_batch_size * run,
        batch=case.global_batch_size,
        dp=strategy.dp,
        shard=shard,
        replicas=strategy.dp // shard,
        tp=strategy.tp,
        virtual=strategy.virtual_stages,
        layers=getattr(case.model, "layers", chunks) // chunks,
        bucket=strategy.ddp.bucket_cap_mb if ddp else strategy.zero.reduce_bucket_size,
    )
