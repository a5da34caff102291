"""What a shell script knows when it starts: the folder it lies in, and the job that its ``#`` lines ask for.

The manuals of Slurm's ``sbatch``, of Torque's and OpenPBS's ``qsub`` (``pbs_resources``), and of LSF's ``bsub``.
"""

from __future__ import annotations

import re
from typing import Final

JOB: Final = "#"
"""How the names begin under which a job's sizes are kept beside variables: no variable can have them."""
NODES: Final = "#nodes"
GPUS: Final = "#gpus of a node"
TASKS: Final = "#tasks of a node"
_HERE: Final = re.compile(
    r"\$\(\s*(?:cd\s+[\"']?)?(?:--\s+)?\$\(\s*dirname\s+(?:--\s+)?[^()]*(?:BASH_SOURCE|\$0)[^()]*\)[\"']?[^()]*pwd[^()]*\)"
    r"|\$\(\s*dirname\s+(?:--\s+)?[^()]*(?:BASH_SOURCE|\$0)[^()]*\)|\$\(\s*pwd\s*\)|`\s*pwd\s*`|\$\{?PWD\b\}?"
)
_SBATCH: Final = re.compile(r"^#SBATCH[ \t]+(?:(--[\w-]+)[= \t]+|(-[NnGc])[= \t]*)(\S+)", re.MULTILINE)
"""Each ends with its line, as the schedulers read them: an option without a value takes nothing of the next one."""
_SLURM: Final = {
    "--nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), "-N": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "--gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"), "--ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "--tasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "--gres": ("SLURM_GPUS_ON_NODE",), **dict.fromkeys(("-n", "--ntasks"), ("SLURM_NTASKS", "SLURM_NPROCS")),
    "--gpus": ("SLURM_GPUS",), "-G": ("SLURM_GPUS",), "--gpus-per-task": ("SLURM_GPUS_PER_TASK",),
    "--cpus-per-task": ("SLURM_CPUS_PER_TASK",), "-c": ("SLURM_CPUS_PER_TASK",),
}  # fmt: skip
"""Variables of a Slurm job by the option of ``sbatch`` that decides them."""
_PBS: Final = re.compile(r"^#PBS[ \t]+(?:-\S+[ \t]+)*?-l[ \t]*(?:\S*,)?(select|nodes)=([^\s,]{1,2000})", re.MULTILINE)
_SCATTERED: Final = re.compile(r"^#PBS[ \t].*\bplace=\S*(?:scatter|excl)", re.MULTILINE)
_LSF: Final = re.compile(r"^#BSUB[ \t]+(?:-\S+[ \t]+)*?-nnodes[ \t]+([0-9]{1,6})\b", re.MULTILINE)
_SUMMIT_SLOTS: Final = 42
"""Lines of a node in LSB_DJOB_HOSTFILE: the cores of a node of Summit, whose LSF knows ``-nnodes``."""
_PBS_HOSTS: Final = "/var/spool/pbs/aux/job"
_LSF_HOSTS: Final = "/tmp/lsf/job"
SLURM_HOSTS: Final = "/var/spool/slurm/hosts"
"""Names alone: none is opened. Slurm has no such file: it is what ``scontrol show hostnames`` prints."""
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_MOST_GPUS: Final = 64  # of a node
_MOST_LINES: Final = 100_000


def own_folder(text: str) -> str:
    """Write ``.`` for the folder of the script and for the one it is started from: its files are looked for in both.

    Examples
    --------
    >>> own_folder('cd "$(dirname "$0")"; cat $PWD/x.json')
    'cd "."; cat ./x.json'
    """
    return _HERE.sub(".", text)


def job_variables(text: str) -> dict[str, list[str]]:
    r"""Return the variables that a scheduler sets for a script with such lines, and the job's sizes beside them.

    Parameters
    ----------
    text : str
        With ``#SBATCH``, ``#PBS`` or ``#BSUB`` lines.

    Returns
    -------
    dict of str to list of str

    Examples
    --------
    >>> job_variables("#SBATCH --gres=gpu:a100:8\n#SBATCH --job-name=x")
    {'SLURM_GPUS_ON_NODE': ['8'], 'CUDA_VISIBLE_DEVICES': ['0,1,2,3,4,5,6,7'], 'SLURM_JOB_GPUS': ['0,1,2,3,4,5,6,7']}
    >>> job_variables("#PBS -l select=2:ncpus=64:ngpus=4")
    {'PBS_NODEFILE': ['/var/spool/pbs/aux/job'], '#nodes': ['2'], '#gpus of a node': ['4']}
    >>> job_variables("#BSUB -nnodes 4")
    {'LSB_DJOB_HOSTFILE': ['/tmp/lsf/job'], '#nodes': ['4']}
    """
    found: dict[str, list[str]] = {}
    for long, short, value in _SBATCH.findall(text):
        number = value.rpartition(":")[2]  # gpu:a100:8
        if _NUMBER.fullmatch(number):
            found |= {name: [number] for name in _SLURM.get(long or short, ())}
    sizes = [next(iter(found.get(name, [])), "") for name in ("SLURM_NTASKS_PER_NODE", "SLURM_NNODES")]
    if sizes[0] and "SLURM_NTASKS" not in found:  # of one node where their number is left out
        tasks = str(int(sizes[0]) * int(sizes[1] or 1))
        found |= {"SLURM_NTASKS": [tasks], "SLURM_NPROCS": [tasks]}
    shown = next(iter(found.get("SLURM_GPUS_ON_NODE", [])), "0")
    if 0 < int(shown) <= _MOST_GPUS:
        listed = ",".join(map(str, range(int(shown))))
        found |= {name: [listed] for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS")}
    if chunks := _chunks(text):
        nodes = [str(sum(count for count, _ in chunks))]
        found |= {"PBS_NODEFILE": [_PBS_HOSTS], NODES: nodes}
        if any("ppn" in given for _, given in chunks):  # Torque's
            ranks = sum(count * int(given.get("ppn", "1")) for count, given in chunks)
            found |= {"PBS_NUM_NODES": nodes, "PBS_NP": [str(ranks)]}
        for name, keys in ((GPUS, ("ngpus", "gpus")), (TASKS, ("mpiprocs",))):
            given = {next((sizes[key] for key in keys if key in sizes), "") for _, sizes in chunks}
            if len(given) == 1 and (size := given.pop()).isdecimal():
                found[name] = [size]
    if match := _LSF.search(text):
        found |= {"LSB_DJOB_HOSTFILE": [_LSF_HOSTS], NODES: [match[1]]}
    return found


def job_files(text: str) -> dict[str, str]:
    r"""Return the files that a scheduler writes for a script with such lines: the hosts of its job.

    Parameters
    ----------
    text : str

    Returns
    -------
    dict of str to str
        A line for every rank of MPI that a host is to have; LSF's begins with the one that runs the script.

    Examples
    --------
    >>> job_files("#PBS -l select=2:mpiprocs=2")
    {'/var/spool/pbs/aux/job': 'node0\nnode0\nnode1\nnode1\n'}
    """
    found: dict[str, str] = {}
    chunks = [(count, int(sizes.get("mpiprocs", sizes.get("ppn", "1")))) for count, sizes in _chunks(text)]
    if 0 < sum(count * max(1, ranks) for count, ranks in chunks) <= _MOST_LINES:
        each = [ranks for count, ranks in chunks for _ in range(count)]
        found[_PBS_HOSTS] = "".join(f"node{at}\n" * ranks for at, ranks in enumerate(each))
    nodes = next(iter(job_variables(text).get("SLURM_NNODES", [])), "0")
    if 0 < int(nodes) <= _MOST_LINES:
        found[SLURM_HOSTS] = "".join(f"node{at}\n" for at in range(int(nodes)))
    match = _LSF.search(text)
    if match and int(match[1]) * _SUMMIT_SLOTS <= _MOST_LINES:
        hosts = [f"node{at}\n" * _SUMMIT_SLOTS for at in range(int(match[1]))]
        found[_LSF_HOSTS] = "batch1\n" + "".join(hosts)
    return found


def _chunks(text: str) -> list[tuple[int, dict[str, str]]]:
    """Return how many hosts of which sizes PBS is asked for; nothing where that is no number of hosts."""
    match = _PBS.search(text)
    if match is None:
        return []
    found: list[tuple[int, dict[str, str]]] = []
    for part in match[2].split("+"):
        count, *rest = part.split(":")
        if not _NUMBER.fullmatch(count) and match[1] == "select":
            return []  # a variable that nothing fills in
        sizes = dict(size.split("=", 1) for size in rest if re.fullmatch(r"\w+=[0-9]{1,6}", size))
        found.append((int(count) if _NUMBER.fullmatch(count) else 1, sizes))
    split = any(count > 1 and sizes.get("ngpus") == "1" for count, sizes in found)
    return [] if split and not _SCATTERED.search(text) else found  # of which one host may have several
