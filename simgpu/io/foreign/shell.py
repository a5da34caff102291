"""Shell scripts as the commands they would run: read, never run.

What a script decides by itself is worked out as bash does it: variables, arrays, arithmetic, quotes, functions,
conditions, and files of the same folder that it reads as scripts; its own folder is ``.``, and it is started without
arguments. What only a run would tell (outputs of programs, files that are not there) stays as it is written: a variable
that a branch of that kind sets has no value, and a reader that needs it refuses it by name.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from simgpu.io.foreign.shell_command import Command
from simgpu.io.foreign.shell_files import Files
from simgpu.io.foreign.shell_heredocs import cut_heredocs
from simgpu.io.foreign.shell_reader import Reader
from simgpu.io.foreign.shell_start import job_files, job_variables
from simgpu.io.foreign.shell_state import LeftError, State
from simgpu.io.foreign.shell_variables import Variables


def read_commands(text: str, folder: Path | None = None) -> list[Command]:
    r"""Expand a script.

    Parameters
    ----------
    text : str
    folder : Path, optional
        Where the script lies, and files that it reads as scripts.

    Returns
    -------
    list of Command
        In the order in which they run.

    Examples
    --------
    >>> script = "N=${N:-2}\nARGS=(--bf16 True)\ntorchrun --nproc_per_node=$((N*4)) \\\n  train.py ${ARGS[@]}"
    >>> read_commands(script)[0].words
    ('torchrun', '--nproc_per_node=8', 'train.py', '--bf16', 'True')
    """
    reader = Reader(folder=folder)
    outer = cut_heredocs(text)[0]
    files = Files(folder=folder, written=job_files(outer))
    state = State(Variables(values=job_variables(outer), prints=reader.prints), files)
    with contextlib.suppress(LeftError):
        reader.body(reader.parsed(text), state)
    for name, node in list(state.functions.items()):
        if name not in reader.called:  # by a way that is not followed
            reader.apart(node, state)
    return reader.commands
