"""DeepSpeed's filters of GPUs: ``worker-0:0,2@worker-1``, of --include and --exclude.

Grammar: deepspeedai/DeepSpeed ``deepspeed/launcher/runner.py`` (parse_resource_filter).
"""

from __future__ import annotations

import re
from collections.abc import Mapping


def included(text: str) -> tuple[int | None, int]:
    """Return the GPUs and nodes that a filter names; None where it names a node without its GPUs.

    Examples
    --------
    >>> included("a:0,1@b:0-3"), included("a@b")
    ((6, 2), (None, 2))
    """
    slots = [_slots(listed) for _, listed in _hosts(text)]
    return (None if None in slots else sum(len(found) for found in slots if found is not None)), len(slots)


def remaining(hosts: Mapping[str, int], text: str) -> list[int]:
    """Return the GPUs of each node that a filter of --exclude leaves.

    Parameters
    ----------
    hosts : mapping of str to int
        GPUs by node, as the hostfile lists them.
    text : str

    Returns
    -------
    list of int
        Nodes without any are left out.

    Examples
    --------
    >>> remaining({"a": 4, "b": 4, "c": 4}, "a:3@b")
    [3, 4]
    """
    left = dict(hosts)
    for host, listed in _hosts(text):
        slots = _slots(listed)
        gone = range(left.get(host, 0)) if slots is None else slots & set(range(hosts.get(host, 0)))
        left[host] = left.get(host, 0) - len(gone)
    return [gpus for gpus in left.values() if gpus > 0]


def _hosts(text: str) -> list[tuple[str, str]]:
    parts = [part.partition(":") for part in text.strip().split("@")]
    return [(host.strip(), slots) for host, _, slots in parts]


def _slots(text: str) -> set[int] | None:
    """Return the slots of ``0,1`` or ``0-3``; None for none."""
    if not re.fullmatch(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", text):
        return None
    ends = [part.partition("-") for part in text.split(",")]
    return {slot for low, _, high in ends for slot in range(int(low), int(high or low) + 1)}
