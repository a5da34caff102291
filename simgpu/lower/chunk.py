"""Write the passes of one model chunk: its units, forward and backward, with their weights and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from simgpu.lower.emitter import Emitter
from simgpu.lower.gradients import GradientReductions
from simgpu.lower.segments import Run, Segment, SegmentCompiler, is_closed, stretches
from simgpu.lower.stage_units import StageUnits
from simgpu.lower.weights import WeightGathers
from simgpu.parallel.data_parallel import DataParallelPlan
from simgpu.parallel.schedules import Action
from simgpu.program import Collective
from simgpu.workload.unit import Exchange, GradientReady, Join

ACTIVATIONS, LOGITS, RECOMPUTED, WORKING = "activations", "logits", "recomputed activations", "backward gradients"


@dataclass(slots=True)
class ChunkWriter:
    """One stage of the model on one rank, which may hold several; each is data-parallel by itself.

    Parameters
    ----------
    emitter : Emitter
        The rank's.
    compiler : SegmentCompiler
        The rank's.
    parts : StageUnits
    plan : DataParallelPlan
    actions : sequence of Action
        What the rank does with this stage, in order.
    output_bytes : int
        What the stage sent on, where that is kept until its backward.
    run_microbatches : int or None
        Micro-batches of one run of the pipeline; None where a step has one.
    """

    emitter: Emitter
    compiler: SegmentCompiler
    parts: StageUnits
    plan: DataParallelPlan
    actions: Sequence[Action]
    output_bytes: int = 0
    run_microbatches: int | None = None
    _key: tuple[int, int] = field(init=False)  # what the same is written about
    _weights: WeightGathers = field(init=False)
    _gradients: GradientReductions = field(init=False)
    _last_use: frozenset[Action] = field(init=False)  # of the weights, in each run that ends with a reduction
    _first_gradients: frozenset[Action] = field(init=False)
    _last_gradients: frozenset[Action] = field(init=False)

    def __post_init__(self) -> None:
        self._key = id(self.parts), id(self.plan)
        each = self.run_microbatches if self.plan.reduce_every_run else None
        runs: dict[int, list[Action]] = {}
        for action in self.actions:
            runs.setdefault(action.microbatch // each if each else 0, []).append(action)
        making = [[action for action in run if action.kind in "WB"] for run in runs.values()]
        self._first_gradients = frozenset(run[0] for run in making)
        self._last_gradients = frozenset(run[-1] for run in making)
        self._last_use = frozenset([action for action in run if action.kind in "IB"][-1] for run in runs.values())
        prices = self.compiler.prices
        self._weights = WeightGathers(self.emitter, prices, self.plan, self.parts.names)
        self._gradients = GradientReductions(self.emitter, self.plan, prices, self._weights)

    def begin(self) -> None:
        """Start a step."""
        self._weights.begin()

    def expect_weights(self, microbatch: int) -> None:
        """Start gathering the weights that others updated, before the first forward asks for them."""
        self._weights.expect_soon(microbatch)

    def write(self, action: Action) -> None:
        """Write one action: forward, full backward, input gradients or weight gradients."""
        if self._repeats(action):
            key = self._key, action.kind, action in self._first_gradients
            self.emitter.repeat(key, lambda: self._write(action), microbatch=action.microbatch)
        else:
            self._write(action)

    def _repeats(self, action: Action) -> bool:
        """Whether an action is its kernels and nothing more: no weights are gathered, and no gradients reduced."""
        if self._weights.expects or (self.plan.shards and not self._settled(action)):
            return False
        if action.kind in "FI":
            return True
        opens = len(self._first_gradients) > 1 and action in self._first_gradients  # gradients are taken anew
        return not (self.plan.reduce_every_microbatch or opens or action in self._last_gradients)

    def _settled(self, action: Action) -> bool:
        """Whether all sharded weights are here from before an action until after it."""
        return self._weights.whole and action not in self._last_use

    def _write(self, action: Action) -> None:
        if action.kind == "F":
            self._forward(action)
        elif action.kind == "B":
            self._backward(action)
        elif action.kind == "I":
            self._input_gradients(action)
        else:
            self._weight_gradients(action)

    def finish(self) -> None:
        """Wait for the reductions, before the optimizer."""
        self._gradients.join()

    def update(self) -> None:
        """Drop gradients, and gather what the optimizer changed on other ranks."""
        self._gradients.drop()
        self._weights.update()

    def _forward(self, action: Action) -> None:
        units = self.parts.units
        for index, unit in enumerate(units):
            upcoming = range(index + 1, len(units))
            self._weights.acquire(index, upcoming, phase="forward", microbatch=action.microbatch)
            self.emitter.alloc(unit.saved_bytes, ACTIVATIONS)
            self.emitter.alloc(unit.logits_bytes, LOGITS)
            self._run(self.compiler.forward(unit), index, "forward", action)
            self._weights.release(index, upcoming, backward=False, last_microbatch=False)
        self.emitter.alloc(self.output_bytes, ACTIVATIONS)

    def _backward(self, action: Action) -> None:
        self._gradients.begin_backward(action.microbatch, last_microbatch=action in self._last_gradients)
        for index in reversed(range(len(self.parts.units))):
            unit = self.parts.units[index]
            self._begin_backward(index, action)
            held = {
                LOGITS: unit.logits_bytes,
                RECOMPUTED: unit.recomputed_bytes if unit.recompute else 0,
                ACTIVATIONS: unit.saved_bytes,
            }
            unsharded = self._make_room(index, held)
            segments = self.compiler.backward(unit, *self._keeping(index, action))
            last = len(segments)
            if unsharded:  # the gradients are reduced when the unit's last one is there, and nothing else is
                last = max((i for i, item in enumerate(segments) if isinstance(item, GradientReady)), default=last)
            self._run(segments[:last], index, "backward", action)
            late = min(unit.late_bytes, unit.backward_bytes) if last < len(segments) else 0
            self.emitter.free(unit.backward_bytes - late, WORKING)
            for category, size in held.items():
                self.emitter.free(size, category)
            if action in self._first_gradients:
                self._gradients.keep(index)
            self._run(segments[last:], index, "backward", action)
            self.emitter.free(late, WORKING)
            self._end_backward(index, action)
        self.emitter.free(self.output_bytes, ACTIVATIONS)
        self._end_gradients(action)

    def _make_room(self, index: int, held: dict[str, int]) -> bool:
        """Take the gradients of a shard group in the place of what the unit's backward frees while it writes them.

        Backward lets go of a layer's activations as it completes the gradient of the layer's weights. Return whether
        the unit is in such a group.
        """
        left = self._gradients.opening(index)
        for category, size in held.items():
            part = min(left, size)
            self.emitter.free(part, category)
            held[category], left = size - part, left - part
        return self._gradients.open(index)

    def _input_gradients(self, action: Action) -> None:
        """Run backward without the weights' gradients, and keep what those will need."""
        for index in reversed(range(len(self.parts.units))):
            unit = self.parts.units[index]
            saved, recomputed, gradients = self._kept(index)
            self._begin_backward(index, action)
            self._run(self.compiler.input_gradient(unit), index, "backward", action, "input gradient")
            self.emitter.free((unit.recomputed_bytes if unit.recompute else 0) - recomputed, RECOMPUTED)
            self.emitter.free(unit.backward_bytes, WORKING)
            self.emitter.alloc(gradients, WORKING)
            self.emitter.free(unit.logits_bytes, LOGITS)
            self.emitter.free(unit.saved_bytes - saved, ACTIVATIONS)
            self._end_backward(index, action)
        self.emitter.free(self.output_bytes, ACTIVATIONS)

    def _weight_gradients(self, action: Action) -> None:
        self._gradients.begin_backward(action.microbatch, last_microbatch=action in self._last_gradients)
        for index in reversed(range(len(self.parts.units))):
            unit = self.parts.units[index]
            saved, recomputed, gradients = self._kept(index)
            self._gradients.open(index)
            segments = self.compiler.weight_gradient(unit, *self._keeping(index, action))
            self._run(segments, index, "backward", action, "weight gradient")
            self.emitter.free(recomputed, RECOMPUTED)
            self.emitter.free(gradients, WORKING)
            self.emitter.free(saved, ACTIVATIONS)
            if action in self._first_gradients:
                self._gradients.keep(index)
        self._end_gradients(action)

    def _end_gradients(self, action: Action) -> None:
        """End a backward; a run of the pipeline that others follow ends with its reductions."""
        self._gradients.end_backward(
            action.microbatch, joins=len(self._last_gradients) > 1 and action in self._last_gradients
        )

    def _begin_backward(self, index: int, action: Action) -> None:
        """Make the weights whole, take working memory, and run forward again where it is recomputed."""
        unit, upcoming = self.parts.units[index], tuple(reversed(range(index)))
        self._weights.acquire(index, upcoming, phase="backward", microbatch=action.microbatch)
        self.emitter.alloc(unit.backward_bytes, WORKING)
        if unit.recompute:
            self.emitter.alloc(unit.recomputed_bytes, RECOMPUTED)
            self._run(self.compiler.recompute(unit), index, "recompute", action)

    def _end_backward(self, index: int, action: Action) -> None:
        upcoming, last = tuple(reversed(range(index))), action in self._last_use
        self._weights.release(index, upcoming, backward=True, last_microbatch=last)

    def _keeping(self, index: int, action: Action) -> tuple[frozenset[str], int]:
        """Return at which gradients a reduction starts, and the memory traffic per element to keep each."""
        store = self.plan.store
        marks = self._gradients.marks(index, last_microbatch=action in self._last_gradients)
        return marks, store.first_bytes if action in self._first_gradients else store.later_bytes

    def _kept(self, index: int) -> tuple[int, int, int]:
        """Bytes that the weights' gradients need: of what was saved, of what was recomputed, output gradients."""
        unit, split = self.parts.units[index], self.compiler.split(self.parts.units[index])
        saved = min(unit.saved_bytes, split.inputs_bytes)
        recomputed = min(unit.recomputed_bytes if unit.recompute else 0, split.inputs_bytes - saved)
        return saved, recomputed, split.gradients_bytes

    def _run(self, segments: Sequence[Segment], index: int, phase: str, action: Action, what: str = "") -> None:
        """Write a unit's segments; what exchanges nothing beyond itself, and reduces nothing, is a block."""
        exchanges: dict[str, int] = {}
        for stretch in stretches(segments):
            if isinstance(stretch, GradientReady):
                self._gradients.ready(index, stretch.parameters, microbatch=action.microbatch)
                continue
            write = partial(self._compute, stretch, exchanges, index, phase, action.microbatch, what)
            if is_closed(stretch):
                key = self._key, index, phase, what, tuple(map(id, stretch))
                self.emitter.repeat(key, write, microbatch=action.microbatch)
            else:
                write()

    def _compute(
        self,
        segments: Sequence[Run | Exchange | Join],
        exchanges: dict[str, int],
        index: int,
        phase: str,
        microbatch: int,
        what: str,
    ) -> None:
        emitter, name = self.emitter, self.parts.names[index]
        for segment in segments:
            if isinstance(segment, tuple):
                emitter.kernels(f"{what or phase} {name}", segment, phase=phase, microbatch=microbatch, unit=name)
            elif isinstance(segment, Exchange):
                collective = Collective(
                    name=f"{segment.tag} {name}",
                    communicator=segment.axis,
                    kind=segment.kind,
                    bytes=segment.bytes,
                    phase=phase,
                    microbatch=microbatch,
                )
                exchanges[segment.tag] = emitter.transfer(segment.axis, collective, after=emitter.record())
            else:
                emitter.wait(exchanges.pop(segment.tag))
