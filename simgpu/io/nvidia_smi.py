"""The matrix of ``nvidia-smi topo -m`` as people paste it: tabs, blanks, escapes, glued cells, comments, two tables.

The cells are classes of paths, near to far (the tool's own legend): ``X`` itself, ``NV#`` a bond of # NVLinks, ``PIX``
at most one PCIe bridge, ``PXB`` several, ``PHB`` a host bridge, ``NODE`` several host bridges of one NUMA node, ``SYS``
(``SOC`` in old drivers) the link between NUMA nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from simgpu.io.import_file import refusal

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]")
_COMMENT = re.compile(r"^\s*(?:#|>|//|\|)\s?")
_NAME = r"GPU\d+|NIC\d+|mlx\d+_(?:bond_?)?\d+"
_GLUED_NAMES = re.compile(_NAME)
_ANY_NAME = re.compile(rf"{_NAME}|[a-z][a-z0-9_\-]*\d")
_HEADINGS = re.compile(r"CPU\s+Affinity|NUMA|GPU\s+NUMA")
_CLASS = r"X|NV\d+|SYS|SOC|NODE|PHB|PXB|PIX"
_PEER = r"OK|CNS|GNS|TNS|NS|DR|U"
_CELL = re.compile(rf"{_CLASS}|{_PEER}")
_CELLS = re.compile(rf"(?:{_CLASS}|{_PEER})+")
_AFFINITY = re.compile(r"[\d,\-]+|N/A")
_OVERPRINTED = re.compile(r"[A-Z]{1,4}?(\d[\d,\-]*)")
_LEGEND = re.compile(r"^\s*(X|SYS|SOC|NODE|PHB|PXB|PIX|NV#|NV\d+)\s*=", re.MULTILINE)
_NIC_LEGEND = re.compile(r"^\s*(NIC\d+)\s*:\s*(\S+)\s*$", re.MULTILINE)
_COMMAND = re.compile(r"\btopo\s+(-\w+)")
_AGAIN: Final = "paste all of `nvidia-smi topo -m` again, in a terminal wide enough, or redirect it to a file"


@dataclass(slots=True)
class _Row:
    line: int
    cells: list[str | None]
    tail: str
    ended_early: bool


@dataclass(slots=True)
class _Table:
    line: int
    names: list[str]
    rows: dict[str, _Row] = field(default_factory=dict)

    @property
    def is_peer_access(self) -> bool:
        cells = [cell for row in self.rows.values() for cell in row.cells if cell not in (None, "X")]
        return bool(cells) and all(re.fullmatch(_PEER, str(cell)) for cell in cells)


def read_smi_matrix(text: str, source: str) -> dict[str, Any]:
    r"""Read what ``nvidia-smi topo -m`` printed.

    Parameters
    ----------
    text : str
    source : str
        Name of the file for messages.

    Returns
    -------
    dict
        ``gpus`` and ``nics`` (names in order), ``devices`` (NIC name to what the legend calls it), ``classes`` (name to
        name to class), ``affinity`` (GPU to ``cpu`` and ``numa`` texts, empty where blank), ``peer_access`` (as
        ``classes``, of a ``topo -p2p`` table in the same text, else empty), ``view`` (``all``, ``pcie`` of
        ``topo -mp``, or ``unknown``), ``notes`` (what was repaired).

    Raises
    ------
    ScenarioError
        In one sentence, when there is no such matrix, rows or columns are cut off, or it is another tool's.

    Examples
    --------
    >>> found = read_smi_matrix("  GPU0 GPU1 CPU Affinity\nGPU0 X NV4 0-7\nGPU1 NV4 X 0-7\n", "t")
    >>> found["classes"]["GPU0"], found["affinity"]["GPU1"]
    ({'GPU0': 'X', 'GPU1': 'NV4'}, {'cpu': '0-7', 'numa': ''})
    """
    text = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")
    if re.search(r"\bROCm\b|\bXGMI\b", text):
        problem = "is a matrix of AMD GPUs by rocm-smi, which this import does not read"
        raise refusal(source, problem, fix="write a topology file with xGMI links, or import a dump of RCCL's topology")
    tables = _tables([_COMMENT.sub("", line) for line in text.split("\n")])
    joined = [table for table in tables if not table.is_peer_access and table.rows]
    if not joined:
        raise _no_matrix(tables, source)
    notes: list[str] = []
    classes = [_complete(table, source, notes) for table in joined]
    if any(other != classes[0] for other in classes[1:]):
        lines = ", ".join(str(table.line) for table in joined)
        raise refusal(source, f"holds {len(joined)} different matrices (lines {lines})", fix="import one at a time")
    table = joined[0]
    gpus = [name for name in table.names if name.startswith("GPU")]
    peers = [table for table in tables if table.is_peer_access]
    return {
        "gpus": gpus,
        "nics": [name for name in table.names if not name.startswith("GPU")],
        "devices": dict(_NIC_LEGEND.findall(text)),
        "classes": classes[0],
        "affinity": {gpu: _affinity(table.rows[gpu].tail) for gpu in gpus},
        "peer_access": _complete(peers[0], source, notes) if peers else {},
        "view": _view(text),
        "notes": notes,
    }


def _tables(lines: Sequence[str]) -> list[_Table]:
    tables: list[_Table] = []
    for number, line in enumerate(lines, start=1):
        names = _header(line)
        if names:
            tables.append(_Table(number, names))
            continue
        name, _, rest = line.strip().partition(" ") if "\t" not in line.strip() else _first_column(line.strip())
        if tables and _is_row(name, rest, tables[-1].names):
            tables[-1].rows.setdefault(name, _row(number, rest, len(tables[-1].names)))
    return tables


def _first_column(line: str) -> tuple[str, str, str]:
    match = re.match(r"(\S+)(\s?)(.*)", line)
    return (match[1], match[2], match[3]) if match else (line, "", "")


def _is_row(name: str, rest: str, names: Sequence[str]) -> bool:
    first = rest.split(maxsplit=1)[:1]
    if not first:
        return False
    # A damaged first cell of a known device is still a row; an unknown device needs a whole one.
    if name in names:
        return first[0].isupper()
    return bool(_ANY_NAME.fullmatch(name) and _CELLS.fullmatch(first[0]))


def _header(line: str) -> list[str]:
    """Names of the columns, empty when the line is no header."""
    heading = _HEADINGS.search(line)
    names: list[str] = []
    for token in (line[: heading.start()] if heading else line).split():
        glued = _GLUED_NAMES.findall(token)
        if glued and "".join(glued) == token:
            names += glued
        elif _ANY_NAME.fullmatch(token) and names:
            names.append(token)
        else:
            return []
    # The name of one column twice is a row of another table.
    return names if names and names[0].startswith("GPU") and len(set(names)) == len(names) else []


def _row(number: int, rest: str, columns: int) -> _Row:
    cells: list[str | None] = []
    position = 0
    while len(cells) < columns:
        match = re.compile(r"\s*(\S+)").match(rest, position)
        if match is None or _AFFINITY.fullmatch(match[1]):
            return _Row(number, cells, rest[position:], ended_early=True)
        token = match[1]
        if _CELLS.fullmatch(token):
            cells += _CELL.findall(token)
        elif len(cells) == columns - 1 and (printed := _OVERPRINTED.fullmatch(token)):
            # Drivers before 545 print the CPU list over the end of a last cell that is wider than its column.
            return _Row(number, [*cells, None], f"\t{printed[1]}{rest[match.end() :]}", ended_early=False)
        else:
            cells.append(None)
        position = match.end()
    return _Row(number, cells[:columns], rest[position:], ended_early=False)


def _complete(table: _Table, source: str, notes: list[str]) -> dict[str, dict[str, str]]:
    """Cells of a table, each missing one taken from its mirror image; an error when that is missing as well."""
    absent = [name for name in table.names if name not in table.rows]
    if absent:
        rows, columns = len(table.names) - len(absent), len(table.names)
        problem = f"is cut: {_listed(absent)} of the header {'have' if len(absent) > 1 else 'has'} no row ({columns} "
        raise refusal(source, f"{problem}columns, {rows} rows)", line=table.line, fix=_AGAIN)
    surplus = [name for name in table.rows if name not in table.names]
    if surplus:
        problem = f"is cut: {_listed(surplus)} have rows but no columns in the header"
        if len(surplus) == 1:
            problem = problem.replace(" have rows but no columns", " has a row but no column")
        raise refusal(source, problem, line=table.line, fix=f"{_AGAIN}; or delete these rows to leave the devices out")
    found: dict[str, dict[str, str]] = {name: {} for name in table.names}
    repaired: list[str] = []
    for name, row in table.rows.items():
        for column, other in enumerate(table.names):
            cell = row.cells[column] if column < len(row.cells) else None
            if cell is None:
                mirror = table.rows[other].cells
                mine = table.names.index(name)
                cell = mirror[mine] if mine < len(mirror) else None
                repaired.append(f"{name} to {other}")
            if cell is None or row.ended_early:
                what = f"the row of {name} ends after {len(row.cells)} of {len(table.names)} cells"
                if not row.ended_early:
                    what = f"the cell of {name} and {other} cannot be read"
                raise refusal(source, f"is damaged: {what}", line=row.line, fix=_AGAIN)
            found[name][other] = "SYS" if cell == "SOC" else cell
    for name in table.names:
        for other in table.names:
            if found[name][other] != found[other][name] or (found[name][other] == "X") != (name == other):
                problem = f"contradicts itself: {name} to {other} is {found[name][other]}"
                problem += f", but {other} to {name} is {found[other][name]}" if name != other else ", not X"
                raise refusal(source, problem, line=table.rows[name].line, fix=_AGAIN)
    if repaired:
        notes.append(f"{len(repaired)} unreadable cells ({repaired[0]}, ...) are taken from the mirrored ones")
    return found


def _affinity(tail: str) -> dict[str, str]:
    """CPU and NUMA affinity after the last cell; a blank column stays empty where tabs keep it apart."""
    # One tab per column as the tool prints it; wide headings are followed by a second tab, which is no column.
    parts = [part.strip() for part in tail.split("\t")[1:]] if "\t" in tail else tail.split()
    parts = [part if _AFFINITY.fullmatch(part) else "" for part in parts] + ["", ""]
    cpu, numa = parts[0], parts[1]
    return {"cpu": cpu if cpu != "N/A" else "", "numa": numa if numa != "N/A" else ""}


def _view(text: str) -> str:
    commands = _COMMAND.findall(text)
    entries = set(_LEGEND.findall(text))
    if "-mp" in commands or ("PIX" in entries and "SYS" in entries and not any(e.startswith("NV") for e in entries)):
        return "pcie"
    return "all" if "-m" in commands or any(entry.startswith("NV") for entry in entries) else "unknown"


def _no_matrix(tables: Sequence[_Table], source: str) -> Exception:
    if any(table.is_peer_access for table in tables):
        problem = "is a table of peer access (`topo -p2p`), which says who may reach whom but not over what"
        return refusal(source, problem, fix="paste `nvidia-smi topo -m`")
    if tables:
        return refusal(source, "is cut: the matrix has a header but no rows", line=tables[0].line, fix=_AGAIN)
    problem = "holds no matrix of `nvidia-smi topo -m` and is no NCCL topology XML, node-link JSON or topology file"
    return refusal(source, problem)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} to {names[-1]}"
