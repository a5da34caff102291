"""A role's streams as short lines of text, and golden texts in the same form.

One stream is a list of tokens:

* ``F0 block 1``, ``B1 head``, ``R0 block 0``: forward, backward, recomputation of a unit for one micro-batch;
  ``I1 head`` and ``W1 head`` where backward is split;
* ``flatten gradients@1 = 328192``: any other run of kernels, its micro-batch where it has one, the bytes it moves;
* ``gather block 0@1 = all_gather 82176``: a collective, its kind and its bytes;
* ``send F0 = 4096 to 1``, ``recv B0 = 4096 from 1``: a message, its direction, micro-batch, bytes and peer, and where
  ranks hold several stages ``send F1.0``: that of stage 1;
* ``<gather block 0@1>``: wait until another stream has done that (what its Record follows; ``after <...>`` when that
  is itself a wait, ``begin`` when it is the start of the step);
* ``+4096 activations``, ``-4096 activations``: memory, when asked for.

Names that come again on a stream get a number: ``B1 block 1 #2`` is the second piece of that backward.
"""

from collections import Counter

from simgpu.program import COMPUTE, Alloc, Collective, Compute, Free, Record, Recv, Send, Wait

LETTERS = {"forward": "F", "backward": "B", "recompute": "R", "input gradient": "I", "weight gradient": "W"}


def streams(role, *, memory=False):
    """Return {stream: [token, ...]} of a role."""
    several = len(role.stages) > 1
    named = {name: list(_named(instructions, several)) for name, instructions in role.streams.items()}
    recorded = {}  # event -> where its Record is
    for stream, instructions in named.items():
        for index, (item, _) in enumerate(instructions):
            if isinstance(item, Record):
                assert item.event not in recorded, "an event is recorded once"
                recorded[item.event] = stream, index

    def event(number):
        stream, index = recorded[number]
        for item, name in reversed(named[stream][:index]):
            if isinstance(item, Wait):
                return f"after <{event(item.event)}>"
            if name:
                return name
        return "begin"

    return {
        stream: [token for item, name in instructions if (token := _token(stream, item, name, event, memory))]
        for stream, instructions in named.items()
    }


def golden(text):
    """Read the same from a text: ``stream: a | b``, more lines of the same stream, ``-- why`` at their ends."""
    found, stream = {}, ""
    for line in text.splitlines():
        body = line.split("--")[0].strip()
        if not body:
            continue
        head, colon, rest = body.partition(": ")
        if colon:
            stream, body = head, rest
        found.setdefault(stream, []).extend(token.strip() for token in body.split("|"))
    return found


def _named(instructions, several=False):
    seen = Counter()
    for item in instructions:
        if isinstance(item, Compute) and item.unit:
            what = item.name.removesuffix(f" {item.unit}")
            assert what == item.phase or (what in LETTERS and item.phase == "backward")
            name = f"{LETTERS[what]}{item.microbatch} {item.unit}"
        elif isinstance(item, Compute | Collective):
            name = item.name + (f"@{item.microbatch}" if item.microbatch >= 0 else "")
        elif isinstance(item, Send | Recv):
            direction, stage = {"F": "forward", "B": "backward"}[item.tag[0]], item.tag[1:].split(".")[0]
            of = f" of stage {stage}" if several else ""
            assert item.name == f"{type(item).__name__.lower()} {direction} {item.microbatch}{of}"
            tag = item.tag if several else f"{item.tag[0]}{item.microbatch}"
            name = f"{type(item).__name__.lower()} {tag}"
        else:
            yield item, ""
            continue
        seen[name] += 1
        yield item, name if seen[name] == 1 else f"{name} #{seen[name]}"


def _token(stream, item, name, event, memory):
    if isinstance(item, Compute):
        return name if item.unit else f"{name} = {sum(kernel.bytes for kernel in item.kernels)}"
    if isinstance(item, Collective):
        assert item.communicator == stream, "a communicator has a stream of its own"
        return f"{name} = {item.kind} {item.bytes}"
    if isinstance(item, Send | Recv):
        assert stream.startswith(f"{item.communicator} "), "one stream to and one from each neighbour"
        return f"{name} = {item.bytes} {'to' if isinstance(item, Send) else 'from'} {item.peer}"
    if isinstance(item, Wait):
        return f"<{event(item.event)}>"
    if memory and isinstance(item, Alloc | Free):
        return f"{'+' if isinstance(item, Alloc) else '-'}{item.bytes} {item.category}"
    return ""


def gradients_made(role):
    """Bytes of the gradients that a step makes, which zero_grad drops."""
    items = [item for stream in role.streams.values() for item in stream if isinstance(item, Alloc | Free)]
    made, dropped = (
        sum(item.bytes for item in items if item.category == "gradients" and isinstance(item, kind))
        for kind in (Alloc, Free)
    )
    assert made == dropped
    return made


def kernels(role, stream=COMPUTE):
    """Names and classes of every kernel of a stream, by the token of its run."""
    return {
        name: [(kernel.name, kernel.op_class) for kernel in item.kernels]
        for item, name in _named(role.streams[stream])
        if isinstance(item, Compute)
    }


def held(role, category):
    """Where memory of a category is taken and given back, by stream, without the sizes of everything else."""
    found = {}
    for stream, tokens in streams(role, memory=True).items():
        kept = [token for token in tokens if token[0] not in "+-<" or token.endswith(f" {category}")]
        if any(token.endswith(f" {category}") for token in kept):
            found[stream] = [token for token in kept if not token.startswith(("spread", "cast", "gradient norm"))]
    return found
