"""Point-to-point messages between pipeline ranks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

from simgpu.lower.emitter import Emitter
from simgpu.parallel.message_batches import can_batch, in_batches
from simgpu.parallel.messages import Message, with_messages
from simgpu.parallel.schedules import Action, PipelineSchedule, Slot
from simgpu.program import Collective, Recv, Send


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineScript:
    """What every pipeline rank does and exchanges, in order.

    Parameters
    ----------
    schedule : PipelineSchedule
    rows : tuple of tuple of Action or Message
        One row per rank.
    waits : bool
        A rank waits for all messages between two actions, sends included, and so does its CPU: Megatron exchanges in
        batches and synchronises the device after each (``batch_p2p_sync``, NVIDIA/Megatron-LM
        core/pipeline_parallel/p2p_communication.py). Otherwise it waits only for the input of what it does next.
    ahead : bool
        Receives are posted before the action that comes before their own, so that they come in while that runs;
        otherwise behind the action that they stand behind.
    """

    schedule: PipelineSchedule
    rows: tuple[tuple[Action | Message, ...], ...]
    waits: bool
    ahead: bool


@lru_cache(maxsize=16)  # variants of a sweep or search share theirs
def pipeline_script(schedule: PipelineSchedule, *, overlap: bool) -> PipelineScript:
    """Put the messages of a schedule where they are posted.

    Parameters
    ----------
    schedule : PipelineSchedule
    overlap : bool
        Post receives ahead and wait for no send (``overlap_p2p``).

    Returns
    -------
    PipelineScript
        Without overlap in batches that are waited for, where that is possible (``can_batch``): Megatron's way.
        Elsewhere as PyTorch's runtime does it: sends that nobody waits for, receives posted between the actions.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> pipeline_script(build_schedule("zbv", ranks=2, microbatches=4), overlap=False).waits
    False
    """
    waits = not overlap and can_batch(schedule)
    return PipelineScript(
        schedule=schedule,
        rows=in_batches(schedule) if waits else with_messages(schedule),
        waits=waits,
        ahead=overlap,
    )


@dataclass(slots=True)
class PipelineMessages:
    """The messages of one rank while its program is written.

    To and from each neighbour there is a stream: messages of a pair of ranks follow each other, as on an NCCL
    communicator, and both directions run at once.

    Parameters
    ----------
    emitter : Emitter
    script : PipelineScript
    rank : int
        Pipeline rank.
    messages_bytes : tuple of int
        What each stage hands on to the next, whose gradient comes back.
    scattered : int
        Megatron's scatter-gather: a rank of so many sends its share of the tensor, and an all-gather over the
        tensor-parallel group makes it whole. 1 when ranks send what they need.
    """

    emitter: Emitter
    script: PipelineScript
    rank: int
    messages_bytes: tuple[int, ...]
    scattered: int = 1
    _pending: list[int] = field(default_factory=list)  # events of a batch
    _received: dict[Action, int] = field(default_factory=dict)  # what needs a message -> event of its arrival
    _slots: dict[Action, Slot] = field(default_factory=dict)
    _place: dict[Action, int] = field(default_factory=dict)  # of the slot's first action in the rank's order
    _begins: list[int | None] = field(default_factory=list)  # event at which each action could begin, but for inputs

    def __post_init__(self) -> None:
        place = 0
        for slot in self.script.schedule.rows[self.rank]:
            self._slots |= {action.makes: slot for action in slot}
            self._place |= dict.fromkeys((action.makes for action in slot), place)
            place += len(slot)

    def post(self, message: Message) -> None:
        """Queue a send or a receive on its stream."""
        sends, forward = message.sends, message.forward
        sender = message.stage if sends else message.stage - 1 if forward else message.stage + 1
        several = self.script.schedule.stages > self.script.schedule.ranks
        instruction = (Send if sends else Recv)(
            name=f"{'send' if sends else 'recv'} {_phase(forward)} {message.microbatch}"
            + (f" of stage {sender}" if several else ""),
            communicator="pp",
            peer=message.peer,
            bytes=-(-self._bytes(sender, forward) // self.scattered),
            tag=f"{'F' if forward else 'B'}{sender}.{message.microbatch}",
            phase=_phase(forward),
            microbatch=message.microbatch,
        )
        stream = f"pp {'send to' if sends else 'recv from'} {message.peer}"
        posted = self.emitter.record() if sends or not self.script.ahead else self._ahead(message)
        done = self.emitter.transfer(stream, instruction, after=posted)
        if not sends:
            self._received[_needing(message)] = done
        if self.script.waits:
            self._pending.append(done)

    def before(self, action: Action) -> None:
        """Wait for the inputs of an action and of what it overlaps with, or for the whole batch before it."""
        if self.script.ahead:
            self._begins.append(self.emitter.record() if self._begins else None)
        waited = set()
        for made in (other.makes for other in self._slots[action.makes]):
            received = self._received.pop(made, None)
            if received is not None:
                self.emitter.wait(received)
                waited.add(received)
                if self.scattered > 1:
                    self._gather(made)
        self.finish(waited)

    def finish(self, waited: Collection[int] = ()) -> None:
        """Wait for what is left of the batch that is under way."""
        if self._pending:
            for event in self._pending:
                if event not in waited:
                    self.emitter.wait(event)
            self._pending.clear()
            self.emitter.synchronize()

    def _ahead(self, message: Message) -> int | None:
        """Return the event behind which a receive is posted: the begin of the action before the one that needs it."""
        place = self._place[_needing(message)] - 1
        if place < 0:
            return None
        return self._begins[place] if place < len(self._begins) else self.emitter.record()

    def _bytes(self, sender: int, forward: bool) -> int:
        """Whole size of what a stage sends: its output, or the gradient of its input."""
        return self.messages_bytes[sender if forward else sender - 1]

    def _gather(self, action: Action) -> None:
        forward = action.kind == "F"
        phase, sender = _phase(forward), action.stage - 1 if forward else action.stage + 1
        gather = Collective(
            name=f"gather {phase} {action.microbatch}",
            communicator="tp",
            kind="all_gather",
            bytes=self._bytes(sender, forward),
            phase=phase,
            microbatch=action.microbatch,
        )
        self.emitter.wait(self.emitter.transfer("tp", gather, after=self.emitter.record()))


def _needing(message: Message) -> Action:
    """Return what an action that needs a received message makes."""
    return Action(message.stage, "F" if message.forward else "I", message.microbatch)


def _phase(forward: bool) -> str:
    return "forward" if forward else "backward"
