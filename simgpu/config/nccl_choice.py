"""From the scenario's ``network`` block to NCCL's settings: what the file says, and what NCCL's own logs show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from simgpu.config.environment_block import NetworkBlock
from simgpu.config.findings import Findings
from simgpu.config.gpu_name import is_other_gpu
from simgpu.config.inputs import Inputs
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.errors import ProgramError
from simgpu.hardware.cluster import Cluster

if TYPE_CHECKING:
    from simgpu.io.nvbandwidth import HostCopyRates


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclChoice:
    """NCCL's settings, measured copies of the host, and what the user should know of where they come from."""

    settings: NcclSettings = CURRENT
    host: tuple[HostCopyRates, ...] = ()
    notes: tuple[str, ...] = ()
    gpus: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of files of nccl-tests


def nccl_choice(scenario: ScenarioBlock, inputs: Inputs, findings: Findings) -> NcclChoice:
    """Return NCCL's settings, noting every one that does not exist.

    Parameters
    ----------
    scenario : ScenarioBlock
    inputs : Inputs
        Learns of the log files.
    findings : Findings

    Returns
    -------
    NcclChoice
        Without the settings that are wrong.

    Examples
    --------
    >>> from pathlib import Path
    >>> from simgpu.config.draft import Draft
    >>> data = {"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "training": {},
    ...         "network": {"nccl": {"version": "2.19.3", "algo": "Rung"}}}
    >>> findings = Findings(draft=Draft(data=data, source="s.yaml"))
    >>> nccl_choice(ScenarioBlock.model_validate(data), Inputs(folder=Path()), findings).settings.version
    '2.19.3'
    >>> findings.issues[0].field, findings.issues[0].value
    ('network.nccl.algo', 'Rung')
    """
    network = scenario.network
    if not isinstance(network, NetworkBlock):
        return NcclChoice()
    given = {} if network.nccl is None else network.nccl.model_dump(exclude_none=True)
    found = CURRENT
    for name, value in given.items():
        try:
            found = replace(found, **{name: value})
        except ProgramError as error:
            path = f"network.nccl.{name}"
            if findings.sound(path):
                problem, _, allowed = str(error).removeprefix(f"{value!r} ").partition("; ")
                findings.add(path, problem, allowed=allowed.removeprefix("allowed: ") or None)
    if not network.logs or not findings.sound("network.logs"):
        return NcclChoice(settings=found)
    from simgpu.config.network_logs import read_network_logs  # only logs that are there pay for it

    logs = read_network_logs(found, given, network.logs, inputs, findings)
    return NcclChoice(settings=logs.settings, host=logs.host, notes=logs.notes, gpus=logs.gpus)


def measured_groups(settings: NcclSettings, cluster: Cluster) -> tuple[str, ...]:
    """Say which measured groups this cluster cannot have.

    Parameters
    ----------
    settings : NcclSettings
    cluster : Cluster

    Returns
    -------
    tuple of str
    """
    groups = () if settings.measured is None else settings.measured.groups
    return tuple(
        f"network.logs: {kind} was measured on {ranks} ranks of {nodes} node{'s' * (nodes > 1)}, which "
        f"{cluster.world_size} GPUs on {cluster.nodes} node{'s' * (cluster.nodes > 1)} do not have; it has no effect"
        for kind, ranks, nodes in groups
        if ranks > cluster.world_size or nodes > cluster.nodes or ranks > nodes * cluster.gpus_per_node
    )


def measured_elsewhere(logs: Mapping[str, tuple[str, ...]], cluster: Cluster) -> tuple[str, ...]:
    """Say which files of nccl-tests were measured on other GPUs than a cluster's.

    Parameters
    ----------
    logs : mapping of str to tuple of str
        Names of the GPUs by file.
    cluster : Cluster

    Returns
    -------
    tuple of str
    """
    model = cluster.gpu(0).name
    strange = {name: [gpu for gpu in gpus if is_other_gpu(gpu, [model])] for name, gpus in logs.items()}
    return tuple(
        f"{name}: was measured on {', '.join(gpus)}, and {cluster.name} has {model}"
        for name, gpus in strange.items()
        if gpus
    )
