"""Batch arithmetic: global = micro x dp x accumulation."""

from __future__ import annotations

from math import gcd

from simgpu.config.findings import Findings
from simgpu.config.training_block import TrainingBlock

_MICRO = "training.micro_batch_size"
_GLOBAL = "training.global_batch_size"
_ACCUMULATION = "training.gradient_accumulation"


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
        None when the fields do not fit; the findings then say why.

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> findings = Findings(draft=Draft(data={"training": {"global_batch_size": 64}}, source="s.yaml"))
    >>> solve_batch(TrainingBlock(micro_batch_size=2, global_batch_size=64), 8, findings)
    (2, 4)
    >>> solve_batch(TrainingBlock(micro_batch_size=2, global_batch_size=64, gradient_accumulation=3), 8, findings)
    >>> print(findings.issues[0].fix)
    set global_batch_size to 48, or gradient_accumulation to 4
    """
    if not findings.sound(_MICRO, _GLOBAL, _ACCUMULATION):
        return None
    micro, total, steps = training.micro_batch_size, training.global_batch_size, training.gradient_accumulation
    if micro is None and (total is None or steps is None):
        fix = "add micro_batch_size" + ("" if total or steps else ", and global_batch_size or gradient_accumulation")
        findings.add(_MICRO, "is missing: two of the three batch fields give the third", fix=fix)
        return None
    if total is None:
        return micro or 1, steps or 1
    if micro is None and steps is not None:
        if total % (dp * steps):
            findings.add(
                _GLOBAL, _not_a_multiple(dp, steps, "gradient_accumulation"), fix=_ways_without_micro(total, dp, steps)
            )
            return None
        return total // (dp * steps), steps
    if micro is not None and steps is None:
        if total % (micro * dp):
            findings.add(
                _GLOBAL, _not_a_multiple(dp, micro, "micro_batch_size"), fix=_ways_without_steps(total, dp, micro)
            )
            return None
        return micro, total // (micro * dp)
    if micro is not None and steps is not None and micro * dp * steps != total:
        findings.add(
            _GLOBAL,
            f"is not micro_batch_size x dp x gradient_accumulation = {micro} x {dp} x {steps} = {micro * dp * steps}",
            fix=_ways_to_mend(micro, total, steps, dp),
        )
        return None
    return micro or 1, steps or 1


def _not_a_multiple(dp: int, other: int, name: str) -> str:
    return f"is not a multiple of dp x {name} = {dp} x {other} = {dp * other}"


def _ways_to_mend(micro: int, total: int, steps: int, dp: int) -> str:
    ways = [f"global_batch_size to {micro * dp * steps}"]
    if total % (micro * dp) == 0:
        ways.append(f"gradient_accumulation to {total // (micro * dp)}")
    if total % (dp * steps) == 0:
        ways.append(f"micro_batch_size to {total // (dp * steps)}")
    return "set " + ", or ".join(ways)


def _ways_without_steps(total: int, dp: int, micro: int) -> str:
    ways = [f"global_batch_size to {_multiples(total, micro * dp)}"]
    if total % dp == 0:
        ways.append(f"micro_batch_size to {gcd(micro, total // dp)}")
    if total % micro == 0:
        ways.append(f"dp to {gcd(dp, total // micro)} (with as many GPUs)")
    return "set " + ", or ".join(ways)


def _ways_without_micro(total: int, dp: int, steps: int) -> str:
    ways = [f"global_batch_size to {_multiples(total, dp * steps)}"]
    if total % dp == 0:
        ways.append(f"gradient_accumulation to {gcd(steps, total // dp)}")
    return "set " + ", or ".join(ways)


def _multiples(total: int, unit: int) -> str:
    below, above = total // unit * unit, (total // unit + 1) * unit
    return f"{below} or {above}" if below else str(above)
