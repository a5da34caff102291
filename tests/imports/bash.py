"""What bash makes of a script: the launchers that it starts are replaced by one that prints its words."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

BASH: Final = shutil.which("bash")
NOTHING: Final[Mapping[str, str]] = {}
_PRINTS: Final = '#!/bin/sh\n{ printf "%s" "${0##*/}"; for a in "$@"; do printf "\\037%s" "$a"; done; printf "\\036"; } >> "$STARTED"\n'
PASSES: Final = (
    '#!/bin/bash\nwhile [ $# -gt 0 ]; do\n  case "${1##*/}" in torchrun|deepspeed|accelerate|python|bash) exec "$@" ;; esac\n'
    "  shift\ndone\n"
)
"""A program that starts the launcher among its words, as ``srun`` and ``docker run`` do."""


def started(
    script: Path,
    launchers: Sequence[str] = ("torchrun",),
    programs: Mapping[str, str] = NOTHING,
    variables: Mapping[str, str] = NOTHING,
) -> list[list[str]]:
    """Run a script, and return the words of each launcher that bash starts.

    Parameters
    ----------
    script : Path
    launchers : sequence of str
        Programs that print their words into a list, and do nothing.
    programs : mapping of str to str
        Other programs that it finds, with their text.
    variables : mapping of str to str
        What it finds in its environment.

    Returns
    -------
    list of list of str
    """
    folder = script.parent / "bin"
    folder.mkdir()
    for name, text in {**dict.fromkeys(launchers, _PRINTS), **programs}.items():
        program = folder / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    found = script.parent / "started"
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "STARTED": str(found), **variables}
    subprocess.run(
        [str(BASH), script.name],
        cwd=script.parent,
        env=environment,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    text = found.read_text(encoding="utf-8") if found.exists() else ""
    return [line.split("\037") for line in text.split("\036") if line]
