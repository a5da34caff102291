"""How many GPUs a launch line starts processes on, and on how many nodes.

Options and variables: pytorch/pytorch ``torch/distributed/run.py``; deepspeedai/DeepSpeed ``deepspeed/launcher``;
huggingface/accelerate ``src/accelerate/commands/launch.py``; hiyouga/LLaMA-Factory ``src/llamafactory/launcher.py``;
the manual of Slurm's ``sbatch``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.device_filters import included, named_gpus, remaining
from simgpu.io.foreign.launch_hosts import DEFAULT_HOSTS, has_default_hosts, hosts_named
from simgpu.io.foreign.launch_processes import GPUS_OF_A_NODE
from simgpu.io.foreign.launch_words import LaunchLine
from simgpu.io.foreign.line_numbers import LineNumbers
from simgpu.io.foreign.shell_files import plain_name
from simgpu.io.foreign.shell_start import NODES
from simgpu.io.foreign.started_tasks import started_tasks
from simgpu.io.foreign.visible_gpus import VISIBLE, check_visible

_GPUS_OF_A_NODE: Final = (*GPUS_OF_A_NODE, "GPUS_PER_NODE")
_NODE_COUNTS: Final = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "NNODES", "NUM_NODES", NODES)
_ONE_PROCESS: Final = (("python", "srun", 1), ("python", "mpirun", 1))
"""Launcher, what starts it, and the processes of a line that starts a script as plain Python does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """What a launch line says about processes.

    Parameters
    ----------
    gpus, nodes : int or None
        In all; None where the line does not tell.
    open : str or None
        The words that hold the number, where it is a variable which the script does not set.
    seen : int or None
        GPUs of its one process, where there is one; `gpus` otherwise.
    processes : bool
        Whether each GPU has its own process; otherwise one process has all GPUs that it sees.
    shares : tuple of (int or None)
        GPUs of each node, where a filter or a hostfile lists them.
    used : tuple of str
        Keys of the line's parts that told, such as ``launcher.nnodes``.
    """

    gpus: int | None = None
    nodes: int | None = None
    open: str | None = None
    seen: int | None = None
    processes: bool = True
    shares: tuple[int | None, ...] = ()
    used: tuple[str, ...] = ()


def find_ranks(line: LaunchLine, source: str, folder: Path | None = None) -> Ranks:
    """Count GPUs and nodes.

    Parameters
    ----------
    line : LaunchLine
    source : str
        Name of the file for messages.
    folder : Path, optional
        Where a hostfile may lie.

    Returns
    -------
    Ranks

    Raises
    ------
    ScenarioError
        For what is neither a number nor a variable, and for a range of nodes.

    Examples
    --------
    >>> from simgpu.io.foreign.launch_words import find_launch_line
    >>> texts = ["torchrun --nnodes 2 --nproc-per-node 8 t.py", "srun -N 2 --ntasks-per-node 4 python t.py",
    ...          "mpirun -np 16 python t.py", "deepspeed --include a:0,1@b:0-3 t.py"]
    >>> [(r.gpus, r.nodes) for text in texts for r in [find_ranks(find_launch_line(text, "x.sh"), "x.sh")]]
    [(16, 2), (8, 2), (16, None), (6, 2)]
    """
    return _Count(line, source, folder).ranks()


class _Count(LineNumbers):
    def __init__(self, line: LaunchLine, source: str, folder: Path | None) -> None:
        super().__init__(line, source)
        self.folder = folder

    def ranks(self) -> Ranks:
        counters = {"torchrun": self._torchrun, "tune": self._torchrun, "composer": self._torchrun,
                    "deepspeed": self._deepspeed, "accelerate": self._accelerate}  # fmt: skip
        gpus, nodes = counters.get(self.line.launcher, self._plain)()
        processes = True
        if gpus is None and nodes is None and self.open is None and self.line.launcher == "swift":
            gpus = self._one_process()
        if gpus is None and nodes is None and self.line.launcher not in counters and self.open is None:
            gpus = self.visible()
            processes = self.line.launcher != "python" or bool(self.line.wrapped)
        elif (self.line.launcher, self.line.wrapped, gpus) in _ONE_PROCESS:
            processes = False
        used = tuple(dict.fromkeys(key for key in self.ledger.reading("", {}).used))
        return Ranks(
            gpus=gpus, nodes=nodes, open=self.open, seen=gpus if processes else self.visible(), processes=processes,
            shares=tuple(self.shares), used=used,
        )  # fmt: skip

    def _torchrun(self) -> tuple[int | None, int | None]:
        nodes, per_node = self._nodes("launcher.nnodes"), self.word("launcher", "nproc_per_node", "nproc", "n")
        total = self.integer("launcher", "world_size") if self.line.launcher == "composer" else None
        if total is not None:
            each = None if per_node is None else self.number(*per_node)
            return total, nodes or (total // each if each and total % each == 0 else None)
        if self.line.every_gpu:
            self.open = self.open or self.line.every_gpu
            return None, nodes
        if per_node is None:
            script, *rest = self.line.script, *self.line.arguments
            if self.line.launcher == "torchrun" and self.is_variable(script) and rest and rest[0].endswith(".py"):
                self.open = script  # options that stand nowhere
            each = self.visible() if self.line.launcher != "torchrun" else 1
        else:
            each = self.number(*per_node)
            if each is not None:
                check_visible(self.ledger, per_node[0], each)
        return (None if each is None else each * (nodes or 1)) if self.open is None else None, nodes

    def _nodes(self, key: str) -> int | None:
        """Return --nnodes, which may be a range with one number in it."""
        word = self.ledger.raw(key)
        low, colon, high = str("" if word is None or self.is_variable(word) else word).partition(":")
        if colon and low == high:
            self.ledger.get(key)
            return int(low) if low.isdecimal() else None
        if colon:
            self.ledger.refuse(key, "is a range: the number of nodes must be given", fix=f"write {high}")
        if word is None:
            return None
        if self.is_variable(word):
            found = self.integer("wrapper", "nodes") or self.variable(*_NODE_COUNTS)
            if found is not None:
                self.ledger.get(key)
                return found
        return self.number(key, word)

    def _deepspeed(self) -> tuple[int | None, int | None]:
        include, exclude = self.word("launcher", "include", "i"), self.word("launcher", "exclude", "e")
        if include is not None:
            self.ledger.get(include[0])
            if exclude is not None:
                self.ledger.refuse(exclude[0], "stands beside --include, and DeepSpeed takes one", fix="leave one out")
            return self._included(str(include[1]), self._hostfile("hostfile", "H"))
        if exclude is not None:
            return self._without(exclude, self._hostfile("hostfile", "H"))
        nodes, each = self.integer("launcher", "num_nodes"), self.integer("launcher", "num_gpus")
        told = nodes is not None and each is not None and self._is_changed("hostfile", "H")
        listed = [] if told or self.open is not None else list(self._hostfile("hostfile", "H").values())
        if listed:
            hosts = listed[: nodes or len(listed)]
            self.shares = [*hosts] if each is None else []
            return (sum(hosts) if each is None else each * len(hosts)), len(hosts)  # --num_gpus is of every host
        if each is None and self.open is None:
            each = self.visible() if nodes in (None, 1) else self.variable(*_GPUS_OF_A_NODE)
        return (None if each is None or self.open else each * (nodes or 1)), nodes

    def _included(self, text: str, hosts: Mapping[str, int]) -> tuple[int | None, int | None]:
        self.shares = named_gpus(text, hosts)
        return included(text, hosts)

    def _without(self, exclude: tuple[str, Any], hosts: Mapping[str, int]) -> tuple[int | None, int | None]:
        """Return what a filter leaves of a hostfile's GPUs."""
        self.ledger.get(exclude[0])
        left = remaining(hosts, str(exclude[1]))
        if left:
            self.shares = [*left]
            return sum(left), len(left)
        self.open = f"--{exclude[0].rpartition('.')[2]} {exclude[1]}"  # of GPUs that are not in the file
        return None, None

    def _hostfile(self, *names: str) -> dict[str, int]:
        named = self.word("launcher", *names)
        if named is None and self.line.launcher == "deepspeed" and has_default_hosts(self.line):
            named = f"launcher.{names[0]}", DEFAULT_HOSTS
        return hosts_named(self.line, named, self.ledger, self.folder)

    def _is_changed(self, *names: str) -> bool:
        named = self.word("launcher", *names)
        return named is not None and plain_name(str(named[1])) in self.line.changed

    def _accelerate(self) -> tuple[int | None, int | None]:
        nodes, gpus = self.integer("launcher", "num_machines"), self.integer("launcher", "num_processes")
        filtered = self._filtered(nodes)
        if filtered is not None:
            return filtered
        listed = self.word("launcher", "gpu_ids")
        if gpus is None and self.open is None and listed is not None and re.fullmatch(r"\d+(,\d+)*", str(listed[1])):
            self.ledger.get(listed[0])
            gpus = len(str(listed[1]).split(",")) * (nodes or 1)
        elif gpus is not None and nodes in (None, 1):
            check_visible(self.ledger, "launcher.num_processes", gpus)
        elif gpus is None and self.open is None and nodes in (None, 1) and not self.ledger.raw("launcher.config_file"):
            gpus = self.visible()  # Accelerate counts them where no configuration tells
        return gpus, nodes

    def _filtered(self, nodes: int | None) -> tuple[int | None, int | None] | None:
        """Count by the filters that Accelerate hands to DeepSpeed's launcher where there are several nodes.

        huggingface/accelerate src/accelerate/utils/launch.py, prepare_deepspeed_cmd_env: the filter that excludes goes
        before the one that includes, and either before --num_processes.
        """
        exclude, include = (self.word("launcher", f"deepspeed_{kind}clusion_filter") for kind in ("ex", "in"))
        if nodes in (None, 1) or self.ledger.raw("launcher.deepspeed_multinode_launcher") == "standard":
            return None
        hosts = self._hostfile("deepspeed_hostfile")
        if exclude is not None:
            return self._without(exclude, hosts)
        if include is None:
            return None
        self.ledger.get(include[0])
        return self._included(str(include[1]), hosts)

    def _plain(self) -> tuple[int | None, int | None]:
        """Count what ``srun`` or ``mpirun`` starts, or what the script's variables say."""
        if self.line.wrapped and self.line.launcher == "python":
            return started_tasks(self, self.folder)
        each, nodes = self.integer("env", "NPROC_PER_NODE"), self.integer("env", "NNODES")
        if each is not None or nodes is not None:
            each = each or self.visible()
            return (None if each is None else each * (nodes or 1)), nodes
        if self.line.wrapped:
            return started_tasks(self, self.folder)
        total = self.variable("WORLD_SIZE")
        per_node, count = self.variable("GPUS_PER_NODE"), self.variable("NNODES", "NUM_NODES")  # a scheduler starts one
        if total is not None and total > 1:
            return total, count if count is not None and total % count == 0 else None
        if per_node is not None and count is not None:
            return per_node * count, count
        return None, None

    def _one_process(self) -> int:
        """Return the GPU of ms-swift's one process, which spreads a model over several (swift/cli/main.py)."""
        visible = self.visible()
        if visible is not None and visible > 1:
            problem = "are GPUs of one process, over which ms-swift spreads the model: this is not simulated"
            self.ledger.refuse(VISIBLE, problem, fix=f"start a process on each: NPROC_PER_NODE={visible}")
        return 1
