"""Which pipeline stage a pass belongs to, on ranks that hold several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

_NUMBER: Final = re.compile(r"\b(stage|block) (\d+)$")
_FIRST: Final = "embedding"


def stage_of(names: Iterable[str], stages: Sequence[int]) -> dict[str, int]:
    """Tell the stages of a rank's passes apart by what they run.

    Parameters
    ----------
    names : iterable of str
        Of the bars on the rank's compute stream: ``forward stage 4`` of a synthetic model, else ``forward block 12``.
    stages : sequence of int
        That the rank holds, in order.

    Returns
    -------
    dict of str to int
        By name; empty for a rank of one stage, and where the layers of two stages follow each other without a gap,
        so that their names do not tell where one ends.

    Examples
    --------
    >>> stage_of(["forward block 0", "forward block 1", "backward block 16"], (0, 4))
    {'forward block 0': 0, 'forward block 1': 0, 'backward block 16': 4}
    >>> stage_of(["forward block 0", "forward block 1"], (0, 1))
    {}
    """
    if len(stages) < 2:
        return {}
    known = list(dict.fromkeys(names))
    found = {name: match for name in known if (match := _NUMBER.search(name))}
    if found and all(match[1] == "stage" for match in found.values()):
        return {name: int(match[2]) for name, match in found.items()}
    layers = sorted({int(match[2]) for match in found.values()})
    begins = [*layers[:1], *(layer for before, layer in pairwise(layers) if layer != before + 1)]
    if len(begins) != len(stages):
        return {}
    ordered = sorted(stages)
    told = {}
    for name in known:
        if name in found:
            told[name] = ordered[sum(begin <= int(found[name][2]) for begin in begins) - 1]
        elif name.startswith(("forward", "backward", "recompute", "input", "weight")):
            told[name] = ordered[0] if name.endswith(_FIRST) else ordered[-1]
    return told
