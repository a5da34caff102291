"""Launch scripts for bash: comments, variables that the user may set, and one command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from simgpu.costs.collectives.settings import NcclSettings

LAUNCH: Final = "launch.sh"
"""The file that starts a job, in every format."""
PORT: Final = 29500
"""Default of torchrun's --master_port (pytorch/pytorch torch/distributed/run.py)."""
_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+")
_ALGORITHMS: Final = {
    "ring": "Ring", "tree": "Tree", "nvls": "NVLS", "nvls_tree": "NVLSTree", "collnet_direct": "CollnetDirect",
    "collnet_chain": "CollnetChain",
}  # fmt: skip


def script(
    comments: Sequence[str],
    *,
    command: Sequence[Sequence[str]],
    variables: Mapping[str, tuple[str, str]],
    environment: Mapping[str, str],
) -> str:
    r"""Write a script.

    Parameters
    ----------
    comments : sequence of str
        Lines of its head.
    command : sequence of sequence of str
        Words of the command, those of a line together; a word with a variable in it stands in double quotes.
    variables : mapping of name to (str, str)
        What a caller may set: its default, and what it is, in words without quotes. Without a default, bash refuses to
        go on without it.
    environment : mapping
        Variables for the processes.

    Returns
    -------
    str

    Examples
    --------
    >>> print(script(["two GPUs"], command=[["torchrun", "--nproc_per_node", "2"], ["train.py", "$DATA"]],
    ...              variables={"DATA": ("", "text to train on")}, environment={}), end="")
    #!/usr/bin/env bash
    # two GPUs
    set -euo pipefail
    cd "$(dirname "$0")"
    <BLANKLINE>
    : "${DATA:?text to train on}"
    <BLANKLINE>
    torchrun --nproc_per_node 2 \
      train.py "$DATA"
    """
    lines = ["#!/usr/bin/env bash", *_comments(comments), "set -euo pipefail", 'cd "$(dirname "$0")"']
    if variables:
        lines.append("")
    for name, (default, what) in variables.items():
        if default:
            lines.append(f'{name}="${{{name}:-{default}}}"  # {what}')
        else:
            lines.append(f': "${{{name}:?{what}}}"')
    if environment:
        lines += ["", *(f"export {name}={quoted(value)}" for name, value in environment.items())]
    rows = [" ".join(quoted(word) for word in row) for row in command if row]
    return "\n".join([*lines, "", " \\\n  ".join(rows)]) + "\n"


def _comments(lines: Sequence[str]) -> Iterator[str]:
    for text in lines:
        for line in text.splitlines() or [""]:
            yield f"# {line}".rstrip()


def quoted(word: str) -> str:
    r"""Return a word as bash takes it, with variables in it expanded.

    Examples
    --------
    >>> quoted("a.json"), quoted("$DATA"), quoted('{"a": 1}'), quoted("full_shard auto_wrap")
    ('a.json', '"$DATA"', '\'{"a": 1}\'', '"full_shard auto_wrap"')
    """
    if _PLAIN.fullmatch(word):
        return word
    if '"' in word and "$" not in word:
        return "'" + word.replace("'", "'\\''") + "'"
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`") + '"'


def nccl_variables(nccl: NcclSettings) -> dict[str, str]:
    """Return the environment variables that tell NCCL what a scenario says.

    Parameters
    ----------
    nccl : NcclSettings

    Returns
    -------
    dict

    Examples
    --------
    >>> nccl_variables(NcclSettings(algo="NVLSTree", p2p_disable=True))
    {'NCCL_ALGO': 'NVLSTree', 'NCCL_P2P_DISABLE': '1'}
    """
    found = {
        "NCCL_ALGO": _ALGORITHMS.get(nccl.algo, ""),
        "NCCL_PROTO": nccl.proto,
        "NCCL_P2P_DISABLE": "1" if nccl.p2p_disable else "",
        "NCCL_IB_DISABLE": "1" if nccl.ib_disable else "",
        "NCCL_NET_GDR_LEVEL": nccl.net_gdr_level,
    }
    return {name: value for name, value in found.items() if value}


def rendezvous(nodes: int) -> dict[str, tuple[str, str]]:
    """Return the variables that processes of several nodes find each other with; none for one node.

    Examples
    --------
    >>> rendezvous(1), list(rendezvous(2))
    ({}, ['MASTER_ADDR', 'NODE_RANK'])
    """
    if nodes == 1:
        return {}
    return {
        "MASTER_ADDR": ("", "name or address of the first node"),
        "NODE_RANK": ("", f"number of this node: 0 to {nodes - 1}"),
    }


def torchrun(nodes: int, gpus_per_node: int) -> list[list[str]]:
    """Return torchrun and its options, up to the script.

    Examples
    --------
    >>> torchrun(1, 8)
    [['torchrun', '--nnodes', '1', '--nproc_per_node', '8']]
    """
    rows = [["torchrun", "--nnodes", str(nodes), "--nproc_per_node", str(gpus_per_node)]]
    if nodes > 1:
        rows.append(["--node_rank", "$NODE_RANK", "--master_addr", "$MASTER_ADDR", "--master_port", str(PORT)])
    return rows
