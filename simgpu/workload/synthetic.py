"""A synthetic model: stages of given durations, for teaching schedules. No embedding, head or optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.errors import ModelError
from simgpu.workload.backward_split import WEIGHT_GRADIENT
from simgpu.workload.op import Timed
from simgpu.workload.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticModel:
    """Pipeline stages that take given times.

    Parameters
    ----------
    name : str
    stages : int
    forward_ns, backward_ns : int or tuple of int, nanoseconds
        Time of one micro-batch's forward and full backward; one number for all stages or one per stage.
    backward_weight_ns : int or tuple of int, nanoseconds, optional
        The part of the full backward that makes the weights' gradients, which zero-bubble schedules put off; half of
        it, rounded down, when None, as in a matrix product.
    activation_bytes : int, bytes
        The message from stage to stage, and of its gradient.
    message_ns : int, nanoseconds, optional
        What a message takes, whatever the network; as its bytes take on the network when None.
    saved_bytes : int, bytes
        Kept from forward to backward per stage and micro-batch.

    Raises
    ------
    ModelError
        Lists every number that cannot be.

    Examples
    --------
    >>> SyntheticModel(stages=4, forward_ns=1000, backward_ns=(2000, 2000, 2000, 3000)).stage_backward_ns(3)
    3000
    """

    stages: int
    forward_ns: int | tuple[int, ...]
    backward_ns: int | tuple[int, ...]
    activation_bytes: int = 0
    saved_bytes: int = 0
    name: str = "synthetic"
    backward_weight_ns: int | tuple[int, ...] | None = None
    message_ns: int | None = None

    def __post_init__(self) -> None:
        problems = []
        if not _whole(self.stages) or self.stages < 1:
            problems.append(f"stages = {self.stages!r} must be a whole number of at least 1")
        for field in ("forward_ns", "backward_ns", "backward_weight_ns"):
            value = getattr(self, field)
            if value is None:
                continue
            times = value if isinstance(value, tuple) else (value,)
            if not all(_whole(time) and time >= 0 for time in times):
                problems.append(f"{field} = {value!r} must be whole nanoseconds of at least 0")
            if isinstance(value, tuple) and len(value) != self.stages:
                problems.append(f"{field} lists {len(value)} stages, but stages = {self.stages}")
        for field in ("activation_bytes", "saved_bytes"):
            value = getattr(self, field)
            if not _whole(value) or value < 0:
                problems.append(f"{field} = {value!r} must be whole bytes of at least 0")
        if self.message_ns is not None and (not _whole(self.message_ns) or self.message_ns < 0):
            problems.append(f"message_ns = {self.message_ns!r} must be whole nanoseconds of at least 0")
        if not problems and any(self.stage_weight_ns(s) > self.stage_backward_ns(s) for s in range(self.stages)):
            problems.append(f"backward_weight_ns = {self.backward_weight_ns!r} is more than all of backward_ns")
        if problems:
            raise ModelError("\n".join(f"model {self.name}: {problem}" for problem in problems))

    def stage_forward_ns(self, stage: int) -> int:
        """Return the forward time of one stage, nanoseconds."""
        return self.forward_ns[stage] if isinstance(self.forward_ns, tuple) else self.forward_ns

    def stage_backward_ns(self, stage: int) -> int:
        """Return the full backward time of one stage, nanoseconds."""
        return self.backward_ns[stage] if isinstance(self.backward_ns, tuple) else self.backward_ns

    def stage_weight_ns(self, stage: int) -> int:
        """Return the time of one stage's weight gradients, nanoseconds."""
        given = self.backward_weight_ns
        if given is None:
            return self.stage_backward_ns(stage) // 2
        return given[stage] if isinstance(given, tuple) else given


def synthetic_units(model: SyntheticModel) -> tuple[Unit, ...]:
    """Return one unit per stage, of kind ``block``, without parameters.

    Examples
    --------
    >>> units = synthetic_units(SyntheticModel(stages=2, forward_ns=10, backward_ns=20, activation_bytes=8))
    >>> [(unit.forward[0].duration_ns, [op.duration_ns for op in unit.backward], unit.output_bytes) for unit in units]
    [(10, [10, 10], 8), (10, [10, 10], 8)]
    """
    return tuple(
        Unit(
            kind="block",
            parameters=(),
            forward=(Timed(name="forward", duration_ns=model.stage_forward_ns(stage)),),
            backward=(
                Timed(
                    name="input gradient",
                    duration_ns=model.stage_backward_ns(stage) - model.stage_weight_ns(stage),
                ),
                Timed(name=WEIGHT_GRADIENT, duration_ns=model.stage_weight_ns(stage)),
            ),
            saved_bytes=model.saved_bytes,
            output_bytes=model.activation_bytes,
        )
        for stage in range(model.stages)
    )


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
