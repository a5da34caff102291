"""Numbers of a launch line: of its options, of the variables in front of it, and of those that the script sets."""

from __future__ import annotations

import re
from typing import Any

from simgpu.io.foreign.document import Document
from simgpu.io.foreign.launch_processes import gpus_of_node
from simgpu.io.foreign.launch_words import LaunchLine
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.visible_gpus import VISIBLE, visible_gpus


class LineNumbers:
    r"""Hands out the numbers of a line, and keeps account of its keys and of a number that is a variable.

    Parameters
    ----------
    line : LaunchLine
    source : str
        Name of the file for messages.

    Attributes
    ----------
    open : str or None
        The words that hold a number, where it is a variable which the script does not set.
    shares : list of (int or None)
        GPUs of each node, where a filter or a hostfile lists them.

    Examples
    --------
    >>> from simgpu.io.foreign.launch_words import find_launch_line
    >>> numbers = LineNumbers(find_launch_line("N=4\ntorchrun --nproc-per-node 8 --nnodes $NODES t.py", "x.sh"), "x.sh")
    >>> numbers.integer("launcher", "nproc_per_node"), numbers.variable("NODES", "N")
    (8, 4)
    >>> numbers.integer("launcher", "nnodes"), numbers.open
    (None, '--nnodes $NODES')
    """

    def __init__(self, line: LaunchLine, source: str) -> None:
        self.line = line
        self.open: str | None = None
        self.shares: list[int | None] = []
        parts = {"launcher": dict(line.options), "wrapper": dict(line.wrapper), "env": dict(line.environment)}
        self.ledger = Ledger(Document(source=source, data=parts))

    def word(self, part: str, *names: str) -> tuple[str, Any] | None:
        """Return the first of some options that is given, with its key."""
        for name in names:
            value = self.ledger.raw(f"{part}.{name}")
            if value is not None and value is not True:
                return f"{part}.{name}", value
        return None

    def integer(self, part: str, *names: str) -> int | None:
        """Return the number of the first of some options that is given."""
        found = self.word(part, *names)
        return None if found is None else self.number(*found)

    def number(self, key: str, value: Any) -> int | None:
        """Return a number of at least 1; -1, which DeepSpeed takes for all, and variables are None."""
        if self.is_variable(value):
            self.ledger.get(key)
            part, _, name = key.partition(".")
            option = f"{'-' if len(name) == 1 else '--'}{name}"
            self.open = f"{name} of {self.line.wrapped}, {value}" if part == "wrapper" else f"{option} {value}"
            return None
        number = self.ledger.integer(key, least=-1)
        return None if number is None or number < 0 else self.ledger.integer(key, least=1)

    def variable(self, *names: str) -> int | None:
        """Return the first of the script's own variables that holds a number; ``a100:4`` counts four."""
        for name in names:
            text = str(self.line.variables.get(name, "")).rpartition(":")[2]
            if re.fullmatch(r"0*[1-9]\d{0,8}", text):
                return int(text)
        return None

    def visible(self) -> int | None:
        """Return the GPUs that a process sees: of CUDA_VISIBLE_DEVICES, or of the job on a node."""
        found = visible_gpus(self.ledger)
        if found is not None:
            self.ledger.get(VISIBLE)
            return found
        return gpus_of_node(self.line.wrapper, self.line.variables)

    @staticmethod
    def is_variable(value: Any) -> bool:
        """Return whether a value is a variable, or a blank that a template leaves."""
        return isinstance(value, str) and bool(re.search(r"\$[\w{(]|`|<\w", value))
