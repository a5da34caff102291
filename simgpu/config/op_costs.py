"""From the scenario's ``costs`` block to how ops are priced."""

from __future__ import annotations

from simgpu.config.findings import Findings
from simgpu.config.inputs import Inputs
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.costs.choice import CATALOGUE, OpCosts
from simgpu.errors import ScenarioError, TopologyError
from simgpu.hardware.cluster import Cluster
from simgpu.io.user_path import is_readable, obstacle, user_path


def op_costs(scenario: ScenarioBlock, cluster: Cluster | None, inputs: Inputs, findings: Findings) -> OpCosts:
    """Return how ops are priced, noting everything that is wrong with the ``costs`` block.

    Parameters
    ----------
    scenario : ScenarioBlock
    cluster : Cluster or None
        None when it cannot be built; the block is then left unread.
    inputs : Inputs
        Learns of the table's file.
    findings : Findings

    Returns
    -------
    OpCosts
    """
    block = scenario.costs
    if block is None or cluster is None or not findings.sound("costs"):
        return CATALOGUE
    found = OpCosts(rates=block.rates, power_cap_w=block.power_cap_w)
    try:
        found.device(cluster.gpu(0))
    except TopologyError as error:
        problem, _, allowed = str(error).partition("; allowed: ")
        capped = block.power_cap_w is not None and block.rates == "sustained"
        findings.add("costs.power_cap_w" if capped else "costs.rates", problem, allowed=allowed)
    if block.table is None:
        return found
    from simgpu.config.op_table import scenario_table  # only a table that is in use pays for it

    path = inputs.folder / user_path(block.table)
    if not is_readable(path):
        problem = obstacle(path) or f"there is no file {path}"
        findings.add("costs.table", problem, fix="let simgpu ops FILE --csv PATH write one to fill in")
        return found
    try:
        table = scenario_table(path, path.name, cluster.gpu(0))
    except ScenarioError as error:
        findings.adopt(error.issues, home="costs.table")
        return found
    inputs.files.append(path)
    return OpCosts(rates=block.rates, power_cap_w=block.power_cap_w, table=table)
