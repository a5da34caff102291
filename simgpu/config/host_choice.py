"""What one process for all GPUs, and states on the host, ask of the rest of a scenario."""

from __future__ import annotations

from simgpu.config.findings import Findings
from simgpu.config.scenario_block import ScenarioBlock

_ON_THE_CPU = ("adamw", "adam")


def check_threads(scenario: ScenarioBlock, kind: str, model_ranks: int, findings: Findings) -> None:
    """Note what torch.nn.DataParallel cannot do: it is one process on one machine, with whole models.

    Parameters
    ----------
    scenario : ScenarioBlock
    kind : str
        Kind of data parallelism.
    model_ranks : int
        GPUs that one replica spans.
    findings : Findings

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> scenario = ScenarioBlock.model_validate({"model": "gpt2", "cluster": {"topology": "x", "nodes": 2},
    ...                                          "training": {}})
    >>> findings = Findings(draft=Draft(data={}, source="s.yaml"))
    >>> check_threads(scenario, "dataparallel", 1, findings)
    >>> findings.issues[0].problem
    'is one process, which cannot use the GPUs of 2 nodes'
    """
    if kind != "dataparallel":
        return
    nodes = scenario.cluster.nodes
    if nodes > 1:
        problem = f"is one process, which cannot use the GPUs of {nodes} nodes"
        findings.add("parallel.data_parallel", problem, fix="use ddp, or set cluster.nodes to 1")
    elif model_ranks > 1:
        problem = f"runs whole models, none that spans {model_ranks} GPUs"
        findings.add("parallel.data_parallel", problem, fix="use ddp, or leave tp, pp, cp and ep at 1")


def check_offload(scenario: ScenarioBlock, kind: str, findings: Findings) -> None:
    """Note what DeepSpeed does not offload.

    Parameters
    ----------
    scenario : ScenarioBlock
    kind : str
        Kind of data parallelism.
    findings : Findings

    References
    ----------
    deepspeedai/DeepSpeed runtime/zero/offload_config.py, runtime/engine.py
    """
    zero = scenario.zero
    if zero is None or not kind.startswith("zero"):
        return
    if zero.offload_param is not None and kind != "zero3":
        problem = f"needs stage 3, where weights are sharded; this is {kind}"
        findings.add("zero.offload_param", problem, fix="set parallel.data_parallel to zero3, or leave it out")
    if zero.offload_optimizer is None:
        return
    if zero.offload_optimizer.device == "nvme" and kind != "zero3":
        problem = f"goes to an SSD at stage 3 only; this is {kind}"
        findings.add("zero.offload_optimizer", problem, allowed="cpu", fix="set parallel.data_parallel to zero3")
    optimizer = scenario.training.optimizer
    if optimizer not in (*_ON_THE_CPU, "none"):
        problem = "has no step on the CPU, which zero.offload_optimizer needs"
        findings.add("training.optimizer", problem, allowed=", ".join(_ON_THE_CPU))
