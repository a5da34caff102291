"""Which SimGPU computed a result: its version and the sources that decide numbers."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

import simgpu

_NO_NUMBERS: Final = ("cli", "view", "packaged")  # commands, figures, and files that are counted where they are used


@cache
def code_version() -> str:
    """Return the version and a digest of the package's sources and data, the same wherever the same code runs.

    Returns
    -------
    str

    Examples
    --------
    >>> code_version().startswith(simgpu.__version__ + "+")
    True
    """
    home = Path(simgpu.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home)
        if path.suffix in (".py", ".csv", ".json") and name.parts[0] not in _NO_NUMBERS:
            digest.update(f"{name.as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return f"{simgpu.__version__}+{digest.hexdigest()[:12]}"
