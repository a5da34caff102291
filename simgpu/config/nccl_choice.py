"""From the scenario's ``network.nccl`` block to NCCL's settings."""

from __future__ import annotations

from dataclasses import replace

from simgpu.config.environment_block import NetworkBlock
from simgpu.config.findings import Findings
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.errors import ProgramError


def nccl_settings(scenario: ScenarioBlock, findings: Findings) -> NcclSettings:
    """Return NCCL's settings, noting every one that does not exist.

    Parameters
    ----------
    scenario : ScenarioBlock
    findings : Findings

    Returns
    -------
    NcclSettings
        Without the settings that are wrong.

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> data = {"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "training": {},
    ...         "network": {"nccl": {"version": "2.19.3", "algo": "Rung"}}}
    >>> findings = Findings(draft=Draft(data=data, source="s.yaml"))
    >>> nccl_settings(ScenarioBlock.model_validate(data), findings).version
    '2.19.3'
    >>> findings.issues[0].field, findings.issues[0].value
    ('network.nccl.algo', 'Rung')
    """
    network = scenario.network
    found = CURRENT
    if not isinstance(network, NetworkBlock) or network.nccl is None:
        return found
    for name, value in network.nccl.model_dump(exclude_none=True).items():
        try:
            found = replace(found, **{name: value})
        except ProgramError as error:
            path = f"network.nccl.{name}"
            if findings.sound(path):
                problem, _, allowed = str(error).removeprefix(f"{value!r} ").partition("; ")
                findings.add(path, problem, allowed=allowed.removeprefix("allowed: ") or None)
    return found
