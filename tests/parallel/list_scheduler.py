"""A list scheduler that knows nothing of the engine: each rank runs its slots in order, each as soon as it can.

Communication is free. Times are whole numbers, so that closed forms are met exactly.
"""

from dataclasses import dataclass

LEFT_TO_THE_PAIR = None


@dataclass(frozen=True)
class Run:
    starts: list[int]
    ends: list[int]
    busy: list[int]
    peak_live: list[int]
    done: bool

    @property
    def bubble(self):
        """Idle time of the worst rank between its own first start and last end, as the zero-bubble paper counts."""
        return max(end - start - busy for start, end, busy in zip(self.starts, self.ends, self.busy, strict=True))


def run(schedule, forward, input_gradient, weight_gradient, pair=LEFT_TO_THE_PAIR):
    """Times of one stage: F, I, W; B = I + W; an overlapped pair takes ``pair``, or F + B when left out."""
    times = {"F": forward, "I": input_gradient, "W": weight_gradient, "B": input_gradient + weight_gradient}
    last = schedule.stages - 1
    ends = {}  # (stage, microbatch, forward?) -> when its result is there
    rows = [[slot for slot in row if slot] for row in schedule.rows]
    at, now = [0] * len(rows), [0] * len(rows)
    starts, busy = [None] * len(rows), [0] * len(rows)
    live, peak = [0] * len(rows), [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            while at[rank] < len(row):
                slot = row[at[rank]]
                inputs = []
                for stage, kind, m in slot:
                    if kind == "F" and stage:
                        inputs.append((stage - 1, m, True))
                    elif kind in "IB":
                        inputs.append((stage, m, True))
                        if stage < last:
                            inputs.append((stage + 1, m, False))
                if not all(key in ends for key in inputs):
                    break
                start = max([now[rank], *(ends[key] for key in inputs)])
                took = sum(times[a.kind] for a in slot)
                if len(slot) == 2 and pair is not LEFT_TO_THE_PAIR:
                    took = pair
                now[rank] = start + took
                busy[rank] += took
                starts[rank] = start if starts[rank] is None else starts[rank]
                for stage, kind, m in slot:
                    if kind != "W":
                        ends[stage, m, kind == "F"] = now[rank]
                live[rank] += sum(a.kind == "F" for a in slot)
                peak[rank] = max(peak[rank], live[rank])
                live[rank] -= sum(a.kind in "WB" for a in slot)
                at[rank] += 1
                moved = True
    done = all(here == len(row) for here, row in zip(at, rows, strict=True))
    return Run([start or 0 for start in starts], now, busy, peak, done)
