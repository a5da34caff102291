"""What ``simgpu topology import`` does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from simgpu.cli.destination import STDOUT, DestinationError
from simgpu.io.json_file import to_json
from simgpu.io.text_file import check_writable, write_text
from simgpu.io.topology_yaml import to_topology_yaml
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from simgpu.config.imported_topology import Answers, Imported

_SUFFIXES: Final = (".yaml", ".yml", ".json")


def import_file(file: str, answers: Answers, *, out: str) -> Imported:
    """Import a file, write the topology, and say what it is and what was assumed.

    Parameters
    ----------
    file : str
        Path as given.
    answers : Answers
    out : str
        Path of a ``.yaml`` or ``.json``, or ``-`` for YAML on standard output (notes go to standard error).

    Returns
    -------
    Imported

    Raises
    ------
    SimGPUError
        Before anything is written.
    """
    from simgpu.config.imported_topology import import_topology
    from simgpu.config.topology_graph import to_node_link

    source, target = user_path(file), user_path(out)
    if out != STDOUT:
        if target.suffix not in _SUFFIXES:
            raise DestinationError(f"--out {out}: is no topology file; allowed: a path that ends in .yaml or .json")
        check_writable(target)
        if target.resolve() == source.resolve():
            raise DestinationError(f"--out {out} is the file that is read; fix: name another file")
    imported = import_topology(source, answers, file)
    head = [
        f"Imported by SimGPU from {source.name}, {imported.origin}.",
        *(f"Note: {note}." for note in imported.notes),
    ]
    if target.suffix == ".json":
        text = to_json(to_node_link(imported.description))
    else:
        text = to_topology_yaml(imported.description, head)
    if out == STDOUT:
        print(text, end="")
    else:
        write_text(target, text)
    stream = sys.stderr if out == STDOUT else sys.stdout
    print(_summary(imported, out), file=stream)
    for note in imported.notes:
        print(f"note: {note}", file=stream)
    return imported


def _summary(imported: Imported, out: str) -> str:
    devices = imported.description["devices"]
    counts = ", ".join(f"{entry.get('count', 1)} {family}" for family, entry in devices.items())
    where = "" if out == STDOUT else f"{out}: "
    return f"{where}{imported.description['name']} ({counts}), from {imported.origin}"
