"""DeepSpeed's filters of the GPUs in its hostfile: ``worker-0:0,2@worker-1``, of --include and --exclude.

Grammar: deepspeedai/DeepSpeed ``deepspeed/launcher/runner.py`` (fetch_hostfile, parse_resource_filter).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from simgpu.io.foreign.host_list import read_hostfile
from simgpu.io.user_path import is_readable


def hostfile(path: Path) -> dict[str, int]:
    """Return the GPUs of each host of a hostfile; none where there is no such file.

    Raises
    ------
    ScenarioError
        For a line that is no host.

    Examples
    --------
    >>> hostfile(Path("absent"))
    {}
    """
    return read_hostfile(path) if is_readable(path) else {}


def filled(hosts: Mapping[str, int], tasks: int | None) -> tuple[int | None, int | None]:
    """Return how many processes MPI starts on how many of the hosts: slot by slot, in the order of the file.

    Parameters
    ----------
    hosts : mapping of str to int
        Slots by host.
    tasks : int or None
        Of ``-np``; all slots where it is left out.

    Returns
    -------
    (int or None, int or None)
        Processes and hosts; None for hosts where nothing tells, or where processes outnumber the slots.

    Examples
    --------
    >>> filled({"a": 8, "b": 8, "c": 8}, 16), filled({"a": 8, "b": 8}, None), filled({}, 4)
    ((16, 2), (16, 2), (4, None))
    """
    if tasks is None:
        return (sum(hosts.values()), len(hosts)) if hosts else (None, None)
    left = tasks
    for count, slots in enumerate(hosts.values(), start=1):
        left -= slots
        if left <= 0:
            return tasks, count
    return tasks, None


def included(text: str, hosts: Mapping[str, int] | None = None) -> tuple[int | None, int]:
    """Return the GPUs and nodes that a filter names.

    Parameters
    ----------
    text : str
    hosts : mapping of str to int, optional
        GPUs by node, as the hostfile lists them.

    Returns
    -------
    (int or None, int)
        None where the filter names a node without its GPUs, and the hostfile does not have it.

    Examples
    --------
    >>> included("a:0,1@b:0-3"), included("a@b"), included("a@b:0", {"a": 8})
    ((6, 2), (None, 2), (9, 2))
    """
    counts = named_gpus(text, hosts)
    return (None if None in counts else sum(count for count in counts if count is not None)), len(counts)


def named_gpus(text: str, hosts: Mapping[str, int] | None = None) -> list[int | None]:
    """Return the GPUs of each node that a filter names; None as `included` has it.

    Examples
    --------
    >>> named_gpus("a:0,1@b@c", {"b": 8})
    [2, 8, None]
    """
    known = hosts or {}
    return [known.get(host) if (slots := _slots(listed)) is None else len(slots) for host, listed in _hosts(text)]


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
