"""From the scenario's ``network`` block to NCCL's settings: what the file says, and what NCCL's own logs show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from simgpu.config.environment_block import NetworkBlock
from simgpu.config.findings import Findings
from simgpu.config.inputs import Inputs
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.costs.collectives.measured_groups import MeasuredCollectives, MeasuredSeries
from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.errors import ProgramError, ScenarioError
from simgpu.hardware.cluster import Cluster
from simgpu.io.user_path import is_readable, obstacle, user_path

_LOGS: Final = "network.logs"
_VARIABLES: Final[Mapping[str, str]] = {
    "NCCL_ALGO": "algo",
    "NCCL_PROTO": "proto",
    "NCCL_P2P_DISABLE": "p2p_disable",
    "NCCL_IB_DISABLE": "ib_disable",
    "NCCL_NET_GDR_LEVEL": "net_gdr_level",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclChoice:
    """NCCL's settings, and what the user should know of where they come from."""

    settings: NcclSettings = CURRENT
    notes: tuple[str, ...] = ()


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
    if not network.logs or not findings.sound(_LOGS):
        return NcclChoice(settings=found)
    return _with_logs(found, given, network.logs, inputs, findings)


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


def _with_logs(
    found: NcclSettings, given: Mapping[str, Any], names: Sequence[str], inputs: Inputs, findings: Findings
) -> NcclChoice:
    from simgpu.io.nccl_log import read_nccl_log  # only logs that are there pay for it

    series: list[MeasuredSeries] = []
    notes: list[str] = []
    for name in names:
        path = inputs.folder / user_path(name)
        if not is_readable(path):
            findings.add(_LOGS, obstacle(path) or f"there is no file {path}")
            return NcclChoice(settings=found)
        try:
            log = read_nccl_log(path)
        except ScenarioError as error:
            findings.adopt(error.issues, home=_LOGS)
            return NcclChoice(settings=found)
        inputs.files.append(path)
        for test in log.tests:
            if not test.kind:
                fix = "name it after the collective, such as all_reduce.log"
                findings.add(_LOGS, f"{path.name} does not say which collective it measured", fix=fix)
                return NcclChoice(settings=found)
            series.append(MeasuredSeries(kind=test.kind, ranks=test.ranks, nodes=test.nodes, times_us=test.times_us))
        seen = _shown(log.version, log.environment, log.network, log.ways)
        found, said = _settled(found, given, seen, path.name)
        notes += said
        idle = sorted(set(log.environment) - set(_VARIABLES) - _SILENT)
        if idle:
            notes.append(
                f"{path.name}: {', '.join(idle)} {'was' if len(idle) == 1 else 'were'} set and is not simulated"
            )
    if series:
        found = replace(found, measured=MeasuredCollectives(series))
    return NcclChoice(settings=found, notes=tuple(notes))


_SILENT: Final = frozenset({"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA"})
"""Variables that say what to print, or which port is which."""


def _shown(version: str, environment: Mapping[str, str], network: str, ways: frozenset[str]) -> dict[str, Any]:
    """Return what a log shows, by field."""
    shown: dict[str, Any] = {"version": version} if version else {}
    for variable, field in _VARIABLES.items():
        value = environment.get(variable)
        if value is not None:
            shown[field] = value not in ("0", "") if field.endswith("disable") else value
    if network == "Socket":
        shown["ib_disable"] = True
    if "SHM" in ways and "P2P" not in ways:
        shown["p2p_disable"] = True
    if "NET" in ways and "NET/GDRDMA" not in ways and network == "IB":
        shown["net_gdr_level"] = "LOC"
    return shown


def _settled(
    found: NcclSettings, given: Mapping[str, Any], seen: Mapping[str, Any], name: str
) -> tuple[NcclSettings, list[str]]:
    """Take over what the log shows and the scenario leaves open."""
    notes = []
    for field, value in seen.items():
        if field in given or getattr(found, field) == value:
            continue
        try:
            found = replace(found, **{field: value})
        except ProgramError as error:
            notes.append(f"{name}: network.nccl.{field} is left as it was: {error}")
            continue
        notes.append(f"{name}: network.nccl.{field} is {str(value).lower() if value is True else value}")
    return found, notes
