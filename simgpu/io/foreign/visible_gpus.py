"""CUDA_VISIBLE_DEVICES of a launch line."""

from __future__ import annotations

import re
from typing import Final

from simgpu.io.foreign.ledger import Ledger

VISIBLE: Final = "env.CUDA_VISIBLE_DEVICES"


def visible_gpus(ledger: Ledger) -> int | None:
    """Return how many GPUs a process sees; None where nothing says it.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> visible_gpus(Ledger(Document(source="run.sh", data={"env": {"CUDA_VISIBLE_DEVICES": "0, 3"}})))
    2
    """
    listed = str(ledger.raw(VISIBLE) or "").strip(" ,")
    return len(listed.split(",")) if re.fullmatch(r"\d+(\s*,\s*\d+)*", listed) else None


def check_visible(ledger: Ledger, key: str, processes: int) -> None:
    """Refuse more processes on a node than CUDA_VISIBLE_DEVICES shows GPUs.

    Parameters
    ----------
    ledger : Ledger
        With the variable under ``env``.
    key : str
        Of the number of processes.
    processes : int
        On one node.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"env": {"CUDA_VISIBLE_DEVICES": "0,1"}}
    >>> check_visible(Ledger(Document(source="run.sh", data=data)), "launcher.nproc_per_node", 2)
    """
    shown = visible_gpus(ledger)
    if shown is not None and processes > shown:
        problem = f"is more than the {shown} GPUs of CUDA_VISIBLE_DEVICES={ledger.raw(VISIBLE)}, one for each process"
        ledger.refuse(key, problem, allowed=f"at most {shown}", fix="start fewer processes or show more GPUs")
