"""The parallel layout: degrees that multiply to the GPUs, stages that hold the layers, heads that divide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simgpu.config.degrees import nearest, pipeline_degrees, tensor_degrees, tensor_problems
from simgpu.config.findings import Findings
from simgpu.config.parallel_block import ParallelBlock
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.parallel.data_parallel import STRATEGIES
from simgpu.parallel.strategy import DdpOptions, FsdpOptions, Strategy, ZeroOptions
from simgpu.workload.model import Model

if TYPE_CHECKING:
    from simgpu.workload.synthetic import SyntheticModel

_AXES: Final = ("pp", "dp", "tp")
_MOST_STAGES_SHOWN: Final = 64
_MOST_DEGREES_SHOWN: Final = 16


def plan_layout(
    scenario: ScenarioBlock, model: Model | SyntheticModel | None, gpus: int | None, findings: Findings
) -> Strategy | None:
    """Complete and check the parallel layout.

    Parameters
    ----------
    scenario : ScenarioBlock
    model : Model or SyntheticModel or None
        None when it could not be read; what can be checked without it still is.
    gpus : int or None
        GPUs of the cluster; None when it could not be built.
    findings : Findings

    Returns
    -------
    Strategy or None
        None when the degrees do not fit; the findings then say why.

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> from simgpu.workload.bundled import bundled_model
    >>> scenario = ScenarioBlock.model_validate({"model": "gpt2", "cluster": {"topology": "x"}, "training": {},
    ...                                          "parallel": {"tp": 2}})
    >>> findings = Findings(draft=Draft(data={}, source="s.yaml"))
    >>> plan_layout(scenario, bundled_model("gpt2"), 8, findings).dp
    4
    """
    parallel = scenario.parallel
    stages = None if model is None or isinstance(model, Model) else model.stages
    pp = parallel.pp or stages or 1
    if stages is not None:
        _check_synthetic(parallel, stages, findings)
    elif isinstance(model, Model):
        _check_tensor(parallel, model, gpus, findings)
        _check_stages(parallel, model, pp, gpus, findings)
    order = _order(parallel, findings)
    dp = _data_degree(parallel, model, pp, gpus, findings)
    kind = parallel.data_parallel or ("ddp" if dp is not None and dp > 1 else "none")
    if kind == "none" and dp is not None and dp > 1 and findings.sound("parallel.data_parallel"):
        findings.add(
            "parallel.data_parallel",
            f"leaves dp = {dp} copies of the model without anything that joins their gradients",
            allowed=", ".join(name for name in STRATEGIES if name != "none"),
            fix=f"choose one of these, or set cluster.gpus to {parallel.tp * pp}",
        )
    if dp is None or not findings.sound("parallel.tp", "parallel.pp", "parallel.dp", "parallel.order"):
        return None
    zero, fsdp, ddp = scenario.zero, scenario.fsdp, scenario.ddp
    return Strategy(
        tp=parallel.tp,
        pp=pp,
        dp=dp,
        order=order,
        sequence_parallel=parallel.sequence_parallel and parallel.tp > 1,
        schedule=parallel.schedule,
        overlap_p2p=parallel.overlap_p2p,
        layers_per_stage=tuple(parallel.layers_per_stage) if parallel.layers_per_stage else None,
        data_parallel=kind,
        ddp=DdpOptions() if ddp is None else DdpOptions(bucket_cap_mb=ddp.bucket_cap_mb),
        zero=ZeroOptions()
        if zero is None
        else ZeroOptions(
            overlap_comm=zero.overlap_comm,
            reduce_bucket_size=zero.reduce_bucket_size,
            allgather_bucket_size=zero.allgather_bucket_size,
        ),
        fsdp=FsdpOptions() if fsdp is None else FsdpOptions(reshard_after_forward=fsdp.reshard_after_forward),
    )


def _data_degree(
    parallel: ParallelBlock, model: Model | SyntheticModel | None, pp: int, gpus: int | None, findings: Findings
) -> int | None:
    if not findings.sound("parallel.tp", "parallel.pp", "parallel.dp") or gpus is None:
        return None
    model_ranks = parallel.tp * pp
    if gpus % model_ranks:
        field = "parallel.tp" if parallel.tp > 1 and gpus % pp == 0 else "parallel.pp"
        degrees = tensor_degrees if field == "parallel.tp" else pipeline_degrees
        below, above = gpus // model_ranks * model_ranks, (gpus // model_ranks + 1) * model_ranks
        findings.add(
            field if findings.value(field) is not None else "cluster.gpus",
            f"tp x pp = {parallel.tp} x {pp} = {model_ranks} does not divide the {gpus} GPUs",
            allowed=f"{field} one of {_list(degrees(model, parallel, gpus))}" if isinstance(model, Model) else None,
            fix=f"set cluster.gpus to {below or above}, or choose other degrees",
        )
        return None
    dp = gpus // model_ranks
    if parallel.dp is not None and parallel.dp != dp:
        findings.add(
            "parallel.dp",
            f"tp x pp x dp = {parallel.tp} x {pp} x {parallel.dp} = {model_ranks * parallel.dp} "
            f"is not the {gpus} GPUs of the cluster",
            allowed=str(dp),
            fix=f"leave dp out, or set cluster.gpus to {model_ranks * parallel.dp}",
        )
        return None
    return dp


def _check_tensor(parallel: ParallelBlock, model: Model, gpus: int | None, findings: Findings) -> None:
    problems = tensor_problems(model, parallel.tp) if findings.sound("parallel.tp") else []
    if problems:
        allowed = tensor_degrees(model, parallel, gpus)
        problem, fix = ", and ".join(problems), f"set parallel.tp to {nearest(parallel.tp, allowed)}"
        findings.add("parallel.tp", problem, allowed=_list(allowed), fix=fix)


def _check_stages(parallel: ParallelBlock, model: Model, pp: int, gpus: int | None, findings: Findings) -> None:
    if not findings.sound("parallel.pp", "parallel.layers_per_stage"):
        return
    given = parallel.layers_per_stage
    equal = _even(model.layers, pp)
    if given is None:
        allowed = _list(pipeline_degrees(model, parallel, gpus))
        if pp > model.layers:
            problem = f"is more stages than the {model.layers} layers of {model.name}"
            findings.add("parallel.pp", problem, allowed=allowed)
        elif model.layers % pp:
            uneven = equal if gpus is None or gpus % pp == 0 else None
            findings.add(
                "parallel.pp",
                f"does not divide the {model.layers} layers of {model.name}",
                allowed=allowed,
                fix=f"choose one of these, or write parallel.layers_per_stage: {uneven}" if uneven else None,
            )
    elif len(given) != pp:
        problem = f"has {len(given)} entries for {pp} pipeline stages"
        findings.add("parallel.layers_per_stage", problem, fix=f"use {equal}" if equal else None)
    elif sum(given) != model.layers:
        problem = f"sums to {sum(given)}, not to the {model.layers} layers of {model.name}"
        findings.add("parallel.layers_per_stage", problem, fix=f"use {equal}" if equal else None)


def _check_synthetic(parallel: ParallelBlock, stages: int, findings: Findings) -> None:
    if parallel.pp is not None and parallel.pp != stages:
        findings.add(
            "parallel.pp",
            f"is not the {stages} stages of the synthetic model",
            allowed=str(stages),
            fix="leave parallel.pp out, or set model.stages",
        )
    if parallel.tp != 1:
        findings.add("parallel.tp", "a synthetic model has nothing that tensor parallelism could split", allowed="1")
    if parallel.layers_per_stage is not None:
        findings.add("parallel.layers_per_stage", "a synthetic model has stages, not layers", fix="leave it out")


def _order(parallel: ParallelBlock, findings: Findings) -> tuple[str, ...]:
    if parallel.order is None or not findings.sound("parallel.order"):
        return _AXES
    order = tuple(axis for axis in parallel.order if axis in _AXES)  # cp and ep have one rank each
    if sorted(order) != sorted(_AXES) or len(set(parallel.order)) != len(parallel.order):
        findings.add(
            "parallel.order", "does not name each axis once", allowed="pp, dp and tp in some order, slowest first"
        )
    return order


def _even(layers: int, stages: int) -> list[int] | None:
    """Spread layers as evenly as can be, the longer stages first; None where that is not worth printing."""
    if not stages <= layers or stages > _MOST_STAGES_SHOWN:
        return None
    base, extra = divmod(layers, stages)
    return [base + (stage < extra) for stage in range(stages)]


def _list(degrees: list[int]) -> str:
    shown = ", ".join(str(degree) for degree in degrees[:_MOST_DEGREES_SHOWN])
    return shown + (", ..." if len(degrees) > _MOST_DEGREES_SHOWN else "")
