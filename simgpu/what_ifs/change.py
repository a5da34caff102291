"""Changes of machine and program, as ``--what-if`` names them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Final

from simgpu.config.near import did_you_mean
from simgpu.errors import Issue, ScenarioError
from simgpu.hardware.gpu import Gpu
from simgpu.metrics.activity import AXES
from simgpu.program import Compute, Instruction, Kernel, Program, Recv, Send, TransferCost

LINKS: Final[dict[str, str]] = {"nvlink": "NVLink", "pcie": "PCIe", "network": "the network"}
CHIP: Final[dict[str, str]] = {"compute": "arithmetic", "hbm": "device memory"}
WAITS: Final[dict[str, str]] = {"bubble": "no bubble", "host": "no waiting for the CPU"}

_NAMES: Final = (*LINKS, *CHIP, *AXES, *WAITS)
_FACTOR: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)x")
_LEAST, _MOST = 0.01, 1000.0  # beyond these, times of a step leave what the clock and the models were made for
_FREE: Final = TransferCost(latency_ns=0, stream_ns=0, algorithm="free", source="free")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change.

    Parameters
    ----------
    name : str
        ``nvlink``, ``pcie``, ``network``, ``compute``, ``hbm``, a communication axis, ``bubble`` or ``host``.
    factor : float or None
        Times as fast; None for what then costs nothing.

    Examples
    --------
    >>> str(Change(name="nvlink", factor=2.0)), Change(name="tp", factor=None).words
    ('nvlink=2x', 'no tp communication')
    """

    name: str
    factor: float | None

    def __str__(self) -> str:
        word = "none" if self.name in WAITS else "free" if self.factor is None else f"{self.factor:g}x"
        return f"{self.name}={word}"

    @property
    def words(self) -> str:
        if self.name in WAITS:
            return WAITS[self.name]
        if self.factor is None:
            return "no communication at all" if self.name == "network" else f"no {self.name} communication"
        return f"{(LINKS | CHIP)[self.name]} {self.factor:g}× as fast"

    @property
    def kind(self) -> str | None:
        """Kind of the links that are faster; None for other changes."""
        return self.name if self.name in LINKS and self.factor is not None else None


def parse_changes(text: str) -> tuple[Change, ...]:
    """Read ``nvlink=2x,network=free,bubble=none``.

    Parameters
    ----------
    text : str

    Returns
    -------
    tuple of Change

    Raises
    ------
    ScenarioError
        With an issue for each change that is none.

    Examples
    --------
    >>> [change.words for change in parse_changes("hbm=1.5x, dp=free, bubble=none")]
    ['device memory 1.5× as fast', 'no dp communication', 'no bubble']
    """
    changes: dict[str, Change] = {}
    issues = []
    for part in text.split(","):
        name, _, value = (word.strip().lower() for word in part.partition("="))
        allowed = _allowed(name)
        change = _change(name, value)
        if not allowed:
            hint = did_you_mean(name, _NAMES)
            issues.append(_issue(name or "''", None, "is no change", allowed=", ".join(_NAMES), fix=hint))
        elif change is None:
            issues.append(_issue(name, value or "''", "is no such change", allowed=allowed))
        elif name in changes:
            issues.append(_issue(name, value, "is given twice", fix="ask for one at a time"))
        else:
            changes[name] = change
    if issues:
        raise ScenarioError(issues)
    return tuple(changes.values())


def faster_device(gpu: Gpu, change: Change) -> Gpu:
    """Return a device with faster arithmetic, at peak and sustained in all formats, or faster memory.

    Parameters
    ----------
    gpu : Gpu
    change : Change
        ``compute`` or ``hbm``.

    Returns
    -------
    Gpu
    """
    factor = change.factor or 1.0
    if change.name == "hbm":
        return replace(gpu, memory_gb_per_s=gpu.memory_gb_per_s * factor)

    def scaled(rate: float | None) -> float | None:
        return None if rate is None else rate * factor

    return replace(
        gpu,
        gemm_tflops=gpu.gemm_tflops * factor,
        fp8_gemm_tflops=scaled(gpu.fp8_gemm_tflops),
        fp32_tflops=gpu.fp32_tflops * factor,
        tf32_tflops=scaled(gpu.tf32_tflops),
        fp16_tflops=gpu.fp16_tflops * factor,
        bf16_tflops=scaled(gpu.bf16_tflops),
        fp8_tflops=scaled(gpu.fp8_tflops),
    )


def with_free_axis(program: Program, axis: str) -> Program:
    """Return a Program whose transfers of one axis take no time; their members still wait for each other.

    Parameters
    ----------
    program : Program
    axis : str

    Returns
    -------
    Program
    """
    own = {name for name, communicator in program.communicators.items() if communicator.axis == axis}
    transfers = {
        (group, key): _FREE if program.groups[group].communicator in own else cost
        for (group, key), cost in program.transfers.items()
    }
    return replace(program, transfers=transfers)


def without_messages(program: Program) -> Program:
    """Return a Program whose pipeline stages neither send to nor wait for each other.

    Every message becomes a kernel of no time at the same place of its stream: what the CPU issues stays the same.
    Collectives over stages, such as the norm of all gradients, stay.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Program
    """
    between = {name for name, communicator in program.communicators.items() if communicator.spans_stages}

    def silent(instruction: Instruction) -> Instruction:
        if not isinstance(instruction, Send | Recv) or instruction.communicator not in between:
            return instruction
        nothing = Kernel(name=instruction.name, op_class="memory_bound", duration_ns=0)
        return Compute(name=instruction.name, kernels=(nothing,), duration_ns=0, phase=instruction.phase)

    roles = tuple(
        replace(role, streams={name: tuple(map(silent, stream)) for name, stream in role.streams.items()})
        for role in program.roles
    )
    transfers = {
        (group, key): cost
        for (group, key), cost in program.transfers.items()
        if program.groups[group].communicator not in between or key.source < 0
    }
    return replace(program, roles=roles, transfers=transfers)


def _change(name: str, value: str) -> Change | None:
    if value == "free" and (name in AXES or name == "network"):
        return Change(name=name, factor=None)
    if value == "none" and name in WAITS:
        return Change(name=name, factor=None)
    found = _FACTOR.fullmatch(value)
    factor = float(found[1]) if found else math.nan
    return Change(name=name, factor=factor) if name in LINKS | CHIP and _LEAST <= factor <= _MOST else None


def _allowed(name: str) -> str:
    factor = f"a factor from {_LEAST:g}x to {_MOST:g}x, such as 2x"
    if name in WAITS:
        return "none"
    if name == "network":
        return f"{factor}, or free"
    return factor if name in LINKS | CHIP else "free" if name in AXES else ""


def _issue(name: str, value: str | None, problem: str, *, allowed: str | None = None, fix: str | None = None) -> Issue:
    return Issue(field=name, value=value, problem=problem, allowed=allowed, fix=fix, file="--what-if")
