"""What the framework of a run table stands for: software generation, formats, and how replicas are joined.

``simgpu/data/run_frameworks.csv`` has one row per framework, as regular expressions; the first that fits counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from simgpu.hardware.table import read_table
from simgpu.parallel.data_parallel_options import UNBUCKETED_MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A framework and generation.

    Parameters
    ----------
    software : str
        Preset.
    kind : str
        ``megatron``, ``deepspeed``, ``fsdp`` or ``ddp``.
    gradients : str
        ``precision`` where gradients are kept and reduced in the format of the matrix products, else empty.
    scatters : bool
        Pipeline messages are scattered over the tensor-parallel ranks (Megatron's scatter/gather optimisation).
    averages : bool
        Gradients are averaged by the collective that reduces them.
    loss : str
        ``software.cross_entropy`` where the kernels of the loss are not the preset's, else empty.
    assumption : str
        What was taken to be so, else empty.
    """

    software: str
    kind: str
    gradients: str = ""
    scatters: bool = False
    averages: bool = False
    loss: str = ""
    assumption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """How the data-parallel replicas of a run are joined.

    Parameters
    ----------
    data_parallel : str
        A scenario's ``parallel.data_parallel``.
    blocks : dict
        Option blocks of the scenario.
    """

    data_parallel: str
    blocks: dict[str, Any] = field(default_factory=dict)


def find_framework(name: str, flash_attention: str) -> Framework | str:
    """Look a framework up.

    Parameters
    ----------
    name : str
    flash_attention : str
        The table's word: starts with ``y`` or ``n``, or empty.

    Returns
    -------
    Framework
        Or, as text, why there is none.

    Examples
    --------
    >>> find_framework("Megatron-LM (2021)", "n").software, find_framework("NeMo/Megatron-Core", "y (TE)").software
    ('megatron-2021', 'te')
    >>> find_framework("Paxml (JAX)", "y")
    "framework 'Paxml (JAX)' has no software generation: XLA fuses and schedules by itself"
    """
    if not name:
        return "framework is unstated"
    flash = flash_attention[:1].lower()
    for row in _rows():
        if row["pattern"].search(name) and (not row["flash_attn"] or not flash or row["flash_attn"] == flash):
            if not row["software"]:
                return f"framework {name!r} has no software generation: {row['source'].split(':')[0]}"
            return Framework(
                software=row["software"],
                kind=row["kind"],
                gradients=row["gradients"],
                scatters=row["scatters"] == "yes",
                averages=row["averages"] == "yes",
                loss=row["loss"],
                assumption=row["assumption"],
            )
    return f"framework is not in simgpu/data/run_frameworks.csv: {name!r} with flash_attn {flash_attention!r}"


def find_replicas(shard: str, overlap: str, framework: Framework, dp: int) -> Replicas | str:
    """Read how replicas are joined.

    Parameters
    ----------
    shard, overlap : str
        The table's words of the columns ``shard`` and ``overlap_notes``.
    framework : Framework
    dp : int
        Data-parallel degree.

    Returns
    -------
    Replicas
        Or, as text, why it is not known.

    Examples
    --------
    >>> megatron = Framework(software="te", kind="megatron")
    >>> find_replicas("distributed optimizer (ZeRO-1)", "grad reduce-scatter and param all-gather overlap", megatron, 8)
    Replicas(data_parallel='distributed_optimizer', blocks={'distributed_optimizer': {'overlap_grad_reduce': True, ...
    >>> find_replicas("none", "", megatron, 1)
    Replicas(data_parallel='none', blocks={})
    """
    words, notes = shard.lower(), overlap.lower()
    if "distributed optimizer" in words:
        hidden = "overlap" in notes and "not overlapped" not in notes
        options = {"overlap_grad_reduce": hidden, "overlap_param_gather": hidden}
        if framework.averages:
            options["average_in_collective"] = True
        return Replicas(data_parallel="distributed_optimizer", blocks={"distributed_optimizer": options})
    if "fsdp" in words:
        return _fsdp(words, dp)
    if words == "dataparallel":
        return Replicas(data_parallel="dataparallel")
    zero = re.search(r"zero-?([0-3])", words)
    if zero and zero[1] != "0":
        return Replicas(data_parallel=f"zero{zero[1]}")
    if dp == 1:
        return Replicas(data_parallel="none")
    if not words:
        return "shard is unstated: how the replicas are joined"
    if not zero and "none" not in words and "ddp" not in words:
        return f"shard is not known: {shard!r}"
    late = "not overlapped" in notes + words or (framework.kind == "megatron" and "overlap" not in notes)
    return Replicas(data_parallel="ddp", blocks={"ddp": {"bucket_cap_mb": UNBUCKETED_MIB}} if late else {})


def _fsdp(words: str, dp: int) -> Replicas:
    group = re.search(r"over (\d+) gpus|group (\d+)", words)
    size = int(group[1] or group[2]) if group else dp
    if size < dp:
        return Replicas(data_parallel="hsdp", blocks={"fsdp": {"shard_size": size}})
    kind = "fsdp1" if "fsdp1" in words else "fsdp"
    return Replicas(data_parallel=kind, blocks={"fsdp": {"reshard_after_forward": "shard_grad_op" not in words}})


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    return tuple(
        row | {"pattern": re.compile(row["framework"], re.IGNORECASE)} for row in read_table("run_frameworks.csv")
    )
