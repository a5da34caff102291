"""Launch scripts of the forms found in public repositories: the words that bash starts, and the files it leaves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simgpu.io.foreign.shell import read_commands
from simgpu.io.foreign.shell_command import Command
from simgpu.io.foreign.shell_start import JOB, job_files, job_variables
from simgpu.io.foreign.wrappers import unwrap
from tests.imports.bash import BASH, PASSES, started

SCRIPTS = sorted((Path(__file__).parent / "launch_scripts").glob("*.sh"))
LAUNCHERS = ("torchrun", "deepspeed", "accelerate", "python")
PROGRAMS = {
    **dict.fromkeys(("srun", "docker", "singularity", "enroot", "mpirun", "jsrun", "numactl"), PASSES),
    **dict.fromkeys(("module", "pip"), "#!/bin/sh\n"),
    "scontrol": "#!/bin/sh\necho node0\necho node1\n",
    "ssh": '#!/bin/bash\nshift\nexec bash -c "$*" < /dev/null\n',
    "sbatch": '#!/bin/bash\ncat > job\nexport SLURM_NNODES=$(sed -n "s/^#SBATCH --nodes=//p" job)\nbash job\nrm job\n',
}
OF_A_RANK = {"SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_JOBID": "1", "SLURM_JOB_NODELIST": "node[0-1]"}
UNKNOWN = re.compile(r"\$\{?\w+\}?|\$\([^()]*\)")


def is_launcher(command: Command) -> bool:
    words = unwrap(command.words).words
    return bool(words) and words[0] in LAUNCHERS and words[1:2] != ("-c",)


def same(read: list[str], bash: list[str]) -> bool:
    """Whether words are those that bash has, where only a run tells some of them."""
    patterns = [".*".join(map(re.escape, UNKNOWN.split(word))) for word in read]
    pairs = zip(patterns, bash, strict=False)
    return len(read) == len(bash) and all(re.fullmatch(pattern, word, re.DOTALL) for pattern, word in pairs)


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_launch_script(script: Path, tmp_path: Path) -> None:
    text = script.read_text(encoding="utf-8")
    path = tmp_path / "run.sh"
    path.write_text(text, encoding="utf-8")
    (tmp_path / "logs").mkdir()
    lines = [command for command in read_commands(text, tmp_path) if is_launcher(command)]
    read = [list(unwrap(command.words).words) for command in lines]
    variables = {name: values[0] for name, values in job_variables(text).items()}
    hosts = job_files(text)
    for at, (name, listed) in enumerate(hosts.items()):
        (tmp_path / f"hosts{at}").write_text(listed, encoding="utf-8")
        variables |= {key: str(tmp_path / f"hosts{at}") for key, value in variables.items() if value == name}
    bash = started(
        path, LAUNCHERS, PROGRAMS, OF_A_RANK | {name: value for name, value in variables.items() if name[0] != JOB}
    )
    once = [words for at, words in enumerate(bash) if words not in bash[:at]]  # a loop's turns are alike
    assert len(read) == len(once), (read, once)
    for ours, theirs in zip(read, once, strict=True):
        assert same(ours, theirs), (ours, theirs)
    for name, written in lines[-1].written.items():
        assert name[0] == "/" or (tmp_path / name).read_text(encoding="utf-8") == written
