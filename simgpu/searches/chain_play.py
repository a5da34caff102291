"""Plays the steps of a pipeline's ranks with nothing in their way: a period that no simulation is below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.searches.chain_script import RECORD, WAIT, WORK, StreamSteps

PLAYED: Final = 2
"""Training steps; from the second one on a period is mostly the last one's."""


def least_period_ns(streams: Sequence[StreamSteps]) -> int:
    """Return a time that passes at least from one training step's end to the next.

    Parameters
    ----------
    streams : sequence of StreamSteps

    Returns
    -------
    int, nanoseconds
        0 when something waits for ever.

    Notes
    -----
    With x(k) the time at which every stream ends training step k, x(k + 1) = A x(k) in max-plus algebra: streams are in
    order, each step waits for others and takes its least time. Where x(k + 1) >= c + x(k) in every component, so it is
    for all later k, for A is monotone; so c bounds every steady period from below. In a simulation the same order
    holds and each step takes its least time or longer, so that no x(k) is earlier there.

    References
    ----------
    F. Baccelli, G. Cohen, G. J. Olsder, J.-P. Quadrat: Synchronization and Linearity, Wiley 1992, chapter 3.

    Examples
    --------
    >>> from simgpu.searches.chain_script import MEET
    >>> send = StreamSteps(0, "compute", [(WORK, 5), (MEET, 0, 2, 2)])
    >>> receive = StreamSteps(1, "compute", [(MEET, 0, 2, 2), (WORK, 1)])
    >>> least_period_ns([send, receive])
    7
    """
    used = [stream for stream in streams if stream.steps]
    clocks = [0] * len(used)
    for _ in range(PLAYED):
        before = list(clocks)
        if not _play(used, clocks):
            return 0
    return min((after - start for after, start in zip(clocks, before, strict=True)), default=0)


def _play(streams: Sequence[StreamSteps], clocks: list[int]) -> bool:
    """Play one training step from the clocks on, and advance them; return whether all came to its end."""
    places = [0] * len(streams)
    events: dict[tuple[int, int], int] = {}
    waiting: dict[tuple[int, int], list[int]] = {}  # event -> streams
    meetings: dict[int, tuple[int, list[int]]] = {}  # latest so far, streams that are there
    ready = list(range(len(streams)))
    done = 0
    while ready:
        stream = ready.pop()
        rank, _, steps = streams[stream]
        place, now, end = places[stream], clocks[stream], len(steps)
        while place < end:
            step = steps[place]
            kind = step[0]
            if kind == WORK:
                now += step[1]
            elif kind == WAIT:
                when = events.get((rank, step[1]))
                if when is None:
                    waiting.setdefault((rank, step[1]), []).append(stream)
                    break
                if when > now:
                    now = when
            elif kind == RECORD:
                events[rank, step[1]] = now
                ready += waiting.pop((rank, step[1]), ())
            else:
                latest, others = meetings.get(step[1], (now, []))
                latest = max(latest, now)
                if len(others) + 1 < step[3]:
                    others.append(stream)
                    meetings[step[1]] = latest, others
                    break
                now = latest + step[2]
                for other in others:
                    clocks[other] = now
                    places[other] += 1
                ready += others
            place += 1
        places[stream], clocks[stream] = place, now
        done += place == end
    return done == len(streams)
