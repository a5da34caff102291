"""Point-to-point messages between neighbouring stages."""

from __future__ import annotations

from dataclasses import dataclass, field

from simgpu.lower.emitter import Emitter
from simgpu.parallel.schedules import Action
from simgpu.program import Recv, Send


@dataclass(slots=True)
class PipelineMessages:
    """Activations go to the next stage, their gradients to the previous one.

    Without overlap (Megatron's default for 1F1B) a stage posts the send of what it has just computed together with
    the receive of what it computes next, and waits for both. With ``overlap`` receives are posted ahead and sends are
    never waited for. Each direction to each neighbour is a stream of its own, as batched NCCL send/recv behaves.
    """

    emitter: Emitter
    stage: int
    stages: int
    message_bytes: int
    overlap: bool
    _send_done: int | None = field(default=None)

    def before(self, action: Action) -> None:
        """Receive the input of an action, and finish the send that was posted with it."""
        source = self._source(action)
        received = None
        if source is not None:
            direction = "forward" if action.kind == "F" else "backward"
            message = Recv(
                name=f"recv {direction} {action.microbatch}",
                communicator="pp",
                peer=source,
                bytes=self.message_bytes,
                tag=f"{action.kind}{action.microbatch}",
                phase=direction,
                microbatch=action.microbatch,
            )
            posted = None if self.overlap else self.emitter.record()
            received = self.emitter.transfer(f"pp recv {direction}", message, after=posted)
        if received is not None:
            self.emitter.wait(received)
        self.finish()

    def after(self, action: Action) -> None:
        """Send the output of an action."""
        target = self._target(action)
        if target is None:
            return
        direction = "forward" if action.kind == "F" else "backward"
        message = Send(
            name=f"send {direction} {action.microbatch}",
            communicator="pp",
            peer=target,
            bytes=self.message_bytes,
            tag=f"{action.kind}{action.microbatch}",
            phase=direction,
            microbatch=action.microbatch,
        )
        done = self.emitter.transfer(f"pp send {direction}", message, after=self.emitter.record())
        if not self.overlap:
            self._send_done = done

    def finish(self) -> None:
        """Wait for a send that was posted and not waited for yet."""
        if self._send_done is not None:
            self.emitter.wait(self._send_done)
            self._send_done = None

    def _source(self, action: Action) -> int | None:
        peer = self.stage - 1 if action.kind == "F" else self.stage + 1
        return peer if 0 <= peer < self.stages else None

    def _target(self, action: Action) -> int | None:
        peer = self.stage + 1 if action.kind == "F" else self.stage - 1
        return peer if 0 <= peer < self.stages else None
