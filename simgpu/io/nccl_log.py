"""What NCCL and nccl-tests print: measured times, and what NCCL says of itself under ``NCCL_DEBUG=INFO``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.log_lines import log_lines

_KINDS: Final[Mapping[str, str]] = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "broadcast": "broadcast",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
}
_NAMED: Final = re.compile(
    r"(?<![a-z])(all_?reduce|all_?gather|reduce_?scatter|broadcast|all_?to_?all|send_?recv)(?![a-z])", re.IGNORECASE
)
_PREFIX: Final = re.compile(r"^\[\d+,\d+\]<std\w+>:\s?")  # mpirun --tag-output
_BEGIN: Final = re.compile(r"^#\s*nThread\s+\d+\s+nGpus\s+\d+")
_RANK: Final = re.compile(r"^#\s+Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device\s+(\d+)(?:\s+\[[^\]]*\]\s*(.*\S))?")
_PROGRAM: Final = re.compile(r"\b(\w+)_perf\b")
_OTHERS: Final = {
    "nvbandwidth (which network.logs takes)": re.compile(r"nvbandwidth Version"),
    "ibstat (which simgpu import takes)": re.compile(r"CA '\w+'|VM_hostname \S+$"),
}
"""Programs of the same users, by a line that each prints."""
_MEASURED: Final = 8  # time, algbw, busbw, errors; out of place, then in place
_SHOWN: Final = 40  # characters of a value
_VERSION: Final = re.compile(r"NCCL version (\d+\.\d+(?:\.\d+)?)")
_SET: Final = re.compile(r"\b(NCCL_\w+) set (?:by environment )?to (\S+)")
_NETWORK: Final = re.compile(r"Using network (\S+)|Assigned NET plugin (\S+)|NET/(Socket) ?: Using ")
"""The last of them is what logs of old versions and cut ones have: NCCL turns to sockets where it finds no other."""
_CHANNEL: Final = re.compile(r"Channel \d+(?:/\d+)? : .* via (\S+)")


_LARGEST: Final = 2**63 - 1
"""Bytes, of the signed 64-bit counts of nccl-tests."""
_LONGEST_US: Final = 1e12
"""Microseconds, 12 days: far more than any program waits for a collective."""


class _RowError(Exception):
    """A row of a table with a figure that is none."""

    def __init__(self, name: str, value: str, allowed: str) -> None:
        value = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
        self.issue = Issue(
            field=f"{name} in a row of nccl-tests", value=value, problem=f"is no {name}", allowed=allowed
        )
        super().__init__(str(self.issue))


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTest:
    """One program of nccl-tests on one set of ranks.

    Parameters
    ----------
    kind : str
        SimGPU's name of the collective; empty when neither the text nor the file's name tells.
    ranks, nodes : int
    times_us : mapping of int to float
        Microseconds by size in bytes, as nccl-tests counts it: in place where that was run, else out of place; the
        median where a size was run several times.
    """

    kind: str
    ranks: int
    nodes: int
    times_us: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLog:
    """What a file holds.

    Parameters
    ----------
    source : str
    tests : tuple of NcclTest
    version : str
        Of NCCL, or empty.
    environment : mapping of str to str
        NCCL's variables that were set.
    network : str
        ``IB``, ``Socket``, a plugin's name, or empty.
    ways : frozenset of str
        How channels go: ``P2P``, ``SHM``, ``NET``, ``NET/GDRDMA``.
    gpus : tuple of str
        Names that the tables of nccl-tests give the GPUs, each once.
    """

    source: str
    tests: tuple[NcclTest, ...]
    version: str
    environment: Mapping[str, str]
    network: str
    ways: frozenset[str]
    gpus: tuple[str, ...] = ()


def read_nccl_log(path: Path) -> NcclLog:
    r"""Read the output of nccl-tests, or of any job under ``NCCL_DEBUG=INFO``, or of both.

    Parameters
    ----------
    path : Path
        Text, plain or ``.gz``.

    Returns
    -------
    NcclLog

    Raises
    ------
    ScenarioError
        When the file cannot be read, or neither NCCL nor nccl-tests wrote any of it, or a row's size or time is none.

    Examples
    --------
    >>> import tempfile
    >>> text = '''# nThread 1 nGpus 2 minBytes 8 maxBytes 8
    ... #  Rank  0 Pid 7 on box device  0 [0x07] A100
    ... #  Rank  1 Pid 7 on box device  1 [0x0b] A100
    ...  1048576  262144  float  sum  -1  20.0  52.4  52.4  0  21.0  49.9  49.9  0
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "all_reduce.log"
    ...     _ = path.write_text(text)
    ...     read_nccl_log(path).tests
    (NcclTest(kind='all_reduce', ranks=2, nodes=1, times_us={1048576: 21.0}),)
    """
    source = str(path)
    reader = _Reader(name=path.name)
    for number, line in enumerate(log_lines(path), start=1):
        try:
            reader.line(_PREFIX.sub("", line))
        except _RowError as error:
            raise ScenarioError([replace(error.issue, file=source, line=number)]) from None
    reader.close()
    if not (reader.tests or reader.version or reader.environment or reader.ways or reader.network):
        what = f"is the output of {reader.other}, and " if reader.other else ""
        problem = f"{what}holds neither a table of nccl-tests nor a line of NCCL's own log"
        fix = "give the output of all_reduce_perf and the like, or of a job under NCCL_DEBUG=INFO"
        raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=source)])
    return NcclLog(
        source=source,
        tests=tuple(reader.tests),
        version=reader.version,
        environment=reader.environment,
        network=reader.network,
        ways=frozenset(reader.ways),
        gpus=tuple(reader.gpus),
    )


@dataclass(slots=True, kw_only=True)
class _Reader:
    name: str
    tests: list[NcclTest] = field(default_factory=list)
    version: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    network: str = ""
    ways: set[str] = field(default_factory=set)
    program: str = ""  # the last that was named
    other: str = ""  # another program, whose output it is
    hosts: dict[str, str] = field(default_factory=dict)  # by rank
    times_us: dict[int, list[float]] = field(default_factory=dict)
    gpus: dict[str, None] = field(default_factory=dict)

    def line(self, line: str) -> None:
        """Take one line in."""
        if _BEGIN.match(line):
            self.close()
        self.other = self.other or next((name for name, sign in _OTHERS.items() if sign.match(line)), "")
        named = _PROGRAM.search(line)
        if named and kind_in(named[1]):
            self.close()  # it is announced before its table
            self.program = kind_in(named[1])
        rank = _RANK.match(line)
        if rank:
            self.hosts[rank[1]] = rank[2]
            if rank[4]:
                self.gpus.setdefault(rank[4])
            return
        row = _row(line) if self.hosts else None
        if row is not None:
            self.times_us.setdefault(row[0], []).append(row[1])
            return
        if "NCCL" in line:
            self._own(line)

    def close(self) -> None:
        """End a table of nccl-tests."""
        if self.times_us:
            self.tests.append(
                NcclTest(
                    kind=self.program or kind_in(self.name),
                    ranks=len(self.hosts),
                    nodes=len(set(self.hosts.values())),
                    times_us={size: median(times) for size, times in sorted(self.times_us.items())},
                )
            )
        self.hosts, self.times_us = {}, {}

    def _own(self, line: str) -> None:
        version = _VERSION.search(line)
        if version:
            self.version = version[1]
        variable = _SET.search(line)
        if variable:
            self.environment[variable[1]] = variable[2].rstrip(".,;")
        network = _NETWORK.search(line)
        if network and not (network[3] and self.network):
            self.network = network[network.lastindex or 1]
        channel = _CHANNEL.search(line)
        if channel:
            way = channel[1].split("/")[0]
            self.ways.add("NET/GDRDMA" if way == "NET" and "GDRDMA" in channel[1] else way)


def kind_in(text: str) -> str:
    """Find the collective that a program or a file is named after; empty when none or several are.

    Examples
    --------
    >>> kind_in("superbench-nccl_allgather.log"), kind_in("all_reduce_perf"), kind_in("results.txt")
    ('all_gather', 'all_reduce', '')
    """
    found = {_KINDS[word.lower().replace("_", "")] for word in _NAMED.findall(text)}
    return found.pop() if len(found) == 1 else ""


def _row(line: str) -> tuple[int, float] | None:
    """Size and microseconds of a row of nccl-tests; None for what is none, or was cut off, or moved nothing."""
    words = line.split()
    if len(words) < 3 + _MEASURED or not (words[0].isdecimal() and words[1].isdecimal() and words[2].isalnum()):
        return None
    if len(words[0]) > len(str(_LARGEST)) or int(words[0]) > _LARGEST:
        raise _RowError("size", words[0], f"bytes, up to {_LARGEST}")
    times = [_positive(word) for word in _times(words[-_MEASURED:])]
    found = times[1] if times[1] is not None else times[0]
    return None if found is None or words[0] == "0" else (int(words[0]), found)


def _times(measured: list[str]) -> Iterator[str]:
    yield measured[0]
    yield measured[_MEASURED // 2]


def _positive(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    if not 0 <= value <= _LONGEST_US:
        raise _RowError("time", word, f"microseconds, up to {_LONGEST_US:.0e}")
    return value or None
