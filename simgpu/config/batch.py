"""Batch arithmetic: global = micro x dp x accumulation."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Final

from simgpu.config.findings import Findings
from simgpu.config.training_block import TrainingBlock

_MICRO: Final = "training.micro_batch_size"
_GLOBAL: Final = "training.global_batch_size"
_ACCUMULATION: Final = "training.gradient_accumulation"
_WAYS: Final = 3


def solve_batch(training: TrainingBlock, dp: int, findings: Findings) -> tuple[int, int] | None:
    """Complete the batch fields, or say how to mend them.

    Parameters
    ----------
    training : TrainingBlock
    dp : int
        Data-parallel degree.
    findings : Findings

    Returns
    -------
    (micro_batch_size, accumulation) or None
        None when the fields do not fit; the findings then say why, in the names that the user gave them.

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> findings = Findings(draft=Draft(data={"training": {"global_batch_size": 64}}, source="s.yaml"))
    >>> solve_batch(TrainingBlock(micro_batch_size=2, global_batch_size=64), 8, findings)
    (2, 4)
    >>> solve_batch(TrainingBlock(micro_batch_size=2, global_batch_size=64, gradient_accumulation=2), 8, findings)
    >>> print(findings.issues[0].fix)
    set global_batch_size to 32, or gradient_accumulation to 4, or micro_batch_size to 4
    """
    if not findings.sound(_MICRO, _GLOBAL, _ACCUMULATION):
        return None
    micro, total, steps = training.micro_batch_size, training.global_batch_size, training.gradient_accumulation
    names = {field: findings.draft.name(tuple(field.split("."))) for field in (_MICRO, _GLOBAL, _ACCUMULATION)}
    if micro is None and (total is None or steps is None):
        size, batch, accumulation = names.values()
        fix = f"add {size}, and {batch} or {accumulation}"
        if total or steps:
            fix = f"add {size} or {accumulation if total else batch}"
        findings.add(_MICRO, "is missing: two of the three batch fields give the third", fix=fix)
        return None
    if total is None:
        return micro or 1, steps or 1
    unit = dp * (micro or 1) * (steps or 1)
    if micro and steps:
        problem = f"is not {names[_MICRO]} x dp x {names[_ACCUMULATION]} = {micro} x {dp} x {steps} = {unit}"
        ways = [] if total == unit else _ways(micro, total, steps, dp, names)
    else:
        field, value = (_MICRO, micro or 1) if micro else (_ACCUMULATION, steps or 1)
        problem = f"is not a multiple of dp x {names[field]} = {dp} x {value} = {unit}"
        ways = _ways_of_two(total, dp, value, names[_GLOBAL], names[field]) if total % unit else []
    if ways:
        findings.add(_GLOBAL, problem, fix="set " + ", or ".join(ways))
        return None
    return micro or total // unit, steps or total // unit


def _ways_of_two(total: int, dp: int, value: int, batch: str, name: str) -> list[str]:
    """Return how a global batch and one of its factors can fit: the nearest of each."""
    unit = dp * value
    below = total // unit * unit
    ways = [f"{batch} to {f'{below} or ' if below else ''}{below + unit}"]
    if total % dp == 0:
        ways.append(f"{name} to {gcd(value, total // dp)}")
    if total % value == 0:
        ways.append(f"dp to {gcd(dp, total // value)} (fewer GPUs)")
    return ways


def _ways(micro: int, total: int, steps: int, dp: int, names: Mapping[str, str]) -> list[str]:
    """Return the three ways to make three numbers fit; each alone if that goes, otherwise with a second one."""
    size, batch, accumulation = (names[field] for field in (_MICRO, _GLOBAL, _ACCUMULATION))
    ways = [f"{batch} to {micro * dp * steps}"]
    if total % (micro * dp) == 0:
        ways.append(f"{accumulation} to {total // (micro * dp)}")
    if total % (dp * steps) == 0:
        ways.append(f"{size} to {total // (dp * steps)}")
    share, left = divmod(total, dp)
    if not left:
        parts = [part for part in range(1, min(share, 2 * micro) + 1) if share % part == 0]
        parts = [part for part in parts if part != micro and share // part != steps]
        ways += [
            f"{size} to {part} and {accumulation} to {share // part}"
            for part in sorted(parts, key=lambda part: abs(part - micro))
        ]
    if total % (micro * steps) == 0 and total < micro * steps * dp:
        ways.append(f"dp to {total // (micro * steps)} (fewer GPUs)")
    nearest = max(1, total // (micro * dp))
    ways += [
        f"{accumulation} to {passes} and {batch} to {micro * dp * passes}"
        for passes in range(nearest, nearest + _WAYS + 1)
        if passes != steps and micro * dp * passes != total
    ]
    return ways[:_WAYS]
