"""What a shell script knows when it starts: the folder it lies in, and the variables of the Slurm job it asks for."""

from __future__ import annotations

import re
from typing import Final

_HERE: Final = re.compile(
    r"\$\(\s*(?:cd\s+[\"']?)?(?:--\s+)?\$\(\s*dirname\s+(?:--\s+)?[^()]*(?:BASH_SOURCE|\$0)[^()]*\)[\"']?[^()]*pwd[^()]*\)"
    r"|\$\(\s*dirname\s+(?:--\s+)?[^()]*(?:BASH_SOURCE|\$0)[^()]*\)|\$\(\s*pwd\s*\)|`\s*pwd\s*`|\$\{?PWD\b\}?"
)
_SBATCH: Final = re.compile(r"^#SBATCH\s+(?:(--[\w-]+)[=\s]+|(-[Nn])[=\s]*)(\S+)", re.MULTILINE)
_SLURM: Final = {
    "--nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), "-N": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "--gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"), "--ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "--gres": ("SLURM_GPUS_ON_NODE",), "-n": ("SLURM_NTASKS",), "--ntasks": ("SLURM_NTASKS",),
}  # fmt: skip
"""Variables of a Slurm job by the option of ``sbatch`` that decides them."""


def own_folder(text: str) -> str:
    """Write ``.`` for the folder of the script and for the one it is started from: its files are looked for in both.

    Examples
    --------
    >>> own_folder('cd "$(dirname "$0")"; cat $PWD/x.json')
    'cd "."; cat ./x.json'
    """
    return _HERE.sub(".", text)


def slurm_variables(text: str) -> dict[str, list[str]]:
    r"""Return the variables that Slurm sets for a script with such ``#SBATCH`` lines.

    Examples
    --------
    >>> slurm_variables("#SBATCH --gres=gpu:a100:8\n#SBATCH --job-name=x")
    {'SLURM_GPUS_ON_NODE': ['8']}
    """
    found: dict[str, list[str]] = {}
    for long, short, value in _SBATCH.findall(text):
        number = value.rpartition(":")[2]  # gpu:a100:8
        if number.isdigit():
            found |= {name: [number] for name in _SLURM.get(long or short, ())}
    return found
