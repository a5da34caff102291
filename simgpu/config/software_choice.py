"""The software generation of a scenario."""

from __future__ import annotations

from dataclasses import replace

from simgpu.config.environment_block import SoftwareBlock
from simgpu.config.findings import Findings
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.costs.attention_kernel import FORWARD_ONLY, device_kernels
from simgpu.hardware.cluster import Cluster
from simgpu.workload.host_costs import HostCosts
from simgpu.workload.software import DEFAULT, PRESETS, Software


def choose_software(scenario: ScenarioBlock) -> Software:
    """Return the preset that a scenario names, or the default, with the scenario's own kernels and host costs.

    Parameters
    ----------
    scenario : ScenarioBlock

    Returns
    -------
    Software

    Examples
    --------
    >>> scenario = ScenarioBlock.model_validate({"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "training": {},
    ...                                          "software": "TE"})
    >>> choose_software(scenario).fused_wgrad_accumulation
    True
    """
    wanted = scenario.software
    if wanted is None:
        return DEFAULT
    if not isinstance(wanted, SoftwareBlock):
        return PRESETS[wanted]
    preset = PRESETS[wanted.preset]
    loss = wanted.cross_entropy
    return replace(
        preset.without(*(wanted.unfused or ())),
        softmax=wanted.softmax or preset.softmax,
        fused_cross_entropy=preset.fused_cross_entropy if loss is None else loss == "fused",
        fused_exponent=loss == "native",
        fused_linear_loss=loss == "fused_linear",
        optimizer=wanted.optimizer or preset.optimizer,
        fp8_scaling=wanted.fp8_scaling or preset.fp8_scaling,
        attention_kernel=wanted.attention_kernel or preset.attention_kernel,
        host=_host(wanted, preset.host),
    )


def check_software(scenario: ScenarioBlock, cluster: Cluster | None, findings: Findings) -> None:
    """Note settings that the preset or the GPUs lack, and host settings that cannot go together.

    Parameters
    ----------
    scenario : ScenarioBlock
    cluster : Cluster or None
        None when it cannot be built.
    findings : Findings
    """
    wanted = scenario.software
    if isinstance(wanted, SoftwareBlock) and wanted.fp8_scaling and PRESETS[wanted.preset].fp8_scaling is None:
        findings.add(
            "software.fp8_scaling",
            f"means nothing to {wanted.preset}, which has no fp8",
            allowed=f"with preset {', '.join(name for name, software in PRESETS.items() if software.fp8_scaling)}",
            fix="leave it out",
        )
    tp = scenario.parallel.tp if scenario.parallel is not None else None
    if isinstance(wanted, SoftwareBlock) and wanted.cross_entropy == "fused_linear" and (tp or 1) > 1:
        problem = f"has a kernel for whole vocabularies, and parallel.tp = {tp} splits them"
        findings.add("software.cross_entropy", problem, allowed="chain, native, fused", fix="leave it out")
    if isinstance(wanted, SoftwareBlock):
        _check_fusions(wanted, findings)
    if isinstance(wanted, SoftwareBlock) and wanted.attention_kernel is not None:
        _check_kernel(wanted.preset, wanted.attention_kernel, cluster, findings)
    if isinstance(wanted, SoftwareBlock) and wanted.cuda_graphs and wanted.cuda_launch_blocking:
        findings.add(
            "software.cuda_launch_blocking",
            "waits for every kernel, and software.cuda_graphs launches them together",
            allowed="false",
            fix="keep one of the two",
        )


def _check_fusions(wanted: SoftwareBlock, findings: Findings) -> None:
    preset = PRESETS[wanted.preset]
    whole = [name for name in wanted.unfused or () if preset.without(name) == preset]
    if whole:
        problem = f"means nothing to {wanted.preset}, which does not have {', '.join(whole)} in one kernel anyway"
        findings.add("software.unfused", problem, fix="leave it out")
    if wanted.softmax is not None and preset.flash_attention:
        findings.add(
            "software.softmax",
            f"means nothing to {wanted.preset}, whose attention is one kernel",
            allowed=f"with preset {', '.join(name for name, one in PRESETS.items() if not one.flash_attention)}",
            fix="leave it out",
        )


def _check_kernel(preset: str, kernel: str, cluster: Cluster | None, findings: Findings) -> None:
    if not PRESETS[preset].flash_attention:
        findings.add(
            "software.attention_kernel",
            f"means nothing to {preset}, whose attention is not one kernel",
            allowed=f"with preset {', '.join(name for name, software in PRESETS.items() if software.flash_attention)}",
            fix="leave it out",
        )
    elif cluster is not None and kernel not in device_kernels(cluster.gpu(0)):
        findings.add(
            "software.attention_kernel",
            f"is not modelled on {cluster.gpu(0).name}",
            allowed=", ".join(kernel for kernel in device_kernels(cluster.gpu(0)) if kernel not in FORWARD_ONLY),
        )


def _host(wanted: SoftwareBlock, preset: HostCosts) -> HostCosts:
    """Put a scenario's issue time in the place of the preset's; no launch of an op takes longer than the op."""
    host = replace(preset, cuda_graphs=wanted.cuda_graphs, launch_blocking=wanted.cuda_launch_blocking)
    if wanted.host_issue_ns is None:
        return host
    issue_ns = wanted.host_issue_ns
    return replace(
        host,
        forward_op_ns=issue_ns,
        backward_op_ns=issue_ns,
        collective_ns=issue_ns,
        launch_ns=min(issue_ns, host.launch_ns),
        graph_node_ns=min(issue_ns, host.graph_node_ns),
    )
