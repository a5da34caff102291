"""Files of the machine itself that ``network.logs`` names: nccl-tests, NCCL's own log, nvbandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as fields
from pathlib import Path
from typing import Any, Final

from simgpu.config.findings import Findings
from simgpu.config.inputs import Inputs
from simgpu.costs.collectives.measured_groups import MeasuredCollectives, MeasuredSeries
from simgpu.costs.collectives.settings import NcclSettings
from simgpu.errors import Issue, ProgramError, ScenarioError
from simgpu.io.log_lines import log_lines
from simgpu.io.nccl_log import NcclTest, read_nccl_log
from simgpu.io.nvbandwidth import HostCopyRates, is_nvbandwidth, read_nvbandwidth
from simgpu.io.user_path import is_readable, obstacle, user_path
from simgpu.units import format_bytes

LOGS: Final = "network.logs"
_VARIABLES: Final[Mapping[str, str]] = {
    "NCCL_ALGO": "algo",
    "NCCL_PROTO": "proto",
    "NCCL_P2P_DISABLE": "p2p_disable",
    "NCCL_IB_DISABLE": "ib_disable",
    "NCCL_NET_GDR_LEVEL": "net_gdr_level",
}
_SILENT: Final = frozenset({"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA"})
"""Variables that say what to print, or which port is which."""


@dataclass(slots=True, kw_only=True)
class NetworkLogs:
    """What the files say.

    Parameters
    ----------
    settings : NcclSettings
        Those of the scenario, with what the files measured and with the settings that they show.
    host : tuple of HostCopyRates
    notes : tuple of str
        What came of each file.
    gpus : mapping of str to tuple of str
        What files of nccl-tests call the GPUs.
    """

    settings: NcclSettings
    host: tuple[HostCopyRates, ...] = ()
    notes: tuple[str, ...] = ()
    gpus: dict[str, tuple[str, ...]] = fields(default_factory=dict)


def read_network_logs(
    settings: NcclSettings, given: Mapping[str, Any], names: Sequence[str], inputs: Inputs, findings: Findings
) -> NetworkLogs:
    """Read the files, noting the first that cannot be used.

    Parameters
    ----------
    settings : NcclSettings
    given : mapping
        What the scenario's ``network.nccl`` says, which goes before a log's settings.
    names : sequence of str
        Paths, relative to the scenario.
    inputs : Inputs
        Learns of the files.
    findings : Findings

    Returns
    -------
    NetworkLogs
        Of the files before the one that is wrong.
    """
    found = NetworkLogs(settings=settings)
    series: list[MeasuredSeries] = []
    for name in names:
        path = inputs.folder / user_path(name)
        if not is_readable(path):
            findings.add(LOGS, obstacle(path) or f"there is no file {path}")
            return found
        try:
            if is_nvbandwidth(log_lines(path)):
                found.host += (read_nvbandwidth(path),)
            else:
                series += _take_nccl(path, given, found)
        except ScenarioError as error:
            for issue in error.issues:
                findings.add(LOGS, _told(issue), allowed=issue.allowed, fix=issue.fix)
            return found
        inputs.files.append(path)
    if series:
        found.settings = replace(found.settings, measured=MeasuredCollectives(series))
    return found


def _take_nccl(path: Path, given: Mapping[str, Any], found: NetworkLogs) -> list[MeasuredSeries]:
    """Take settings from what NCCL wrote, and return the times that nccl-tests measured."""
    log = read_nccl_log(path)
    found.gpus[path.name] = log.gpus
    notes, series = [], []
    for test in log.tests:
        if not test.kind:
            problem, fix = "does not say which collective it measured", "name it after it, such as all_reduce.log"
            raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=str(path))])
        series.append(MeasuredSeries(kind=test.kind, ranks=test.ranks, nodes=test.nodes, times_us=test.times_us))
        notes.append(f"{path.name}: {_measured(test)} go before the model")
    seen = _shown(log.version, log.environment, log.network, log.ways)
    found.settings, said = _settled(found.settings, given, seen, path.name)
    idle = sorted(set(log.environment) - set(_VARIABLES) - _SILENT)
    if idle:
        said.append(f"{path.name}: {', '.join(idle)} {'was' if len(idle) == 1 else 'were'} set and is not simulated")
    found.notes += (*notes, *said)
    return series


def _measured(test: NcclTest) -> str:
    sizes = sorted(test.times_us)
    span = format_bytes(sizes[0]) if len(sizes) == 1 else f"{format_bytes(sizes[0])} to {format_bytes(sizes[-1])}"
    nodes = f"{test.nodes} node{'s' * (test.nodes > 1)}"
    return f"measured times of {test.kind} on {test.ranks} ranks of {nodes} ({len(sizes)} sizes, {span})"


def _told(issue: Issue) -> str:
    """Write what is wrong with a file, with its name before it."""
    return str(replace(issue, allowed=None, fix=None))


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
