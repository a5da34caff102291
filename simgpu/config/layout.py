"""The parallel layout: degrees that multiply to the GPUs, stages that hold the layers, heads that divide."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from simgpu.config.data_parallel_options import check_options, data_parallel_options, sub_group_size
from simgpu.config.degrees import context_degrees, nearest, pipeline_degrees, tensor_degrees, tensor_problems
from simgpu.config.expert_layout import check_experts
from simgpu.config.findings import Findings
from simgpu.config.host_choice import check_offload, check_threads
from simgpu.config.parallel_block import ParallelBlock
from simgpu.config.pipeline_choice import PipelineChoice, choose_pipeline
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.parallel.data_parallel import STRATEGIES
from simgpu.parallel.schedules import PipelineSchedule
from simgpu.parallel.strategy import Strategy
from simgpu.workload.architecture import Architecture
from simgpu.workload.dual_encoder import DualEncoder

if TYPE_CHECKING:
    from simgpu.workload.synthetic import SyntheticModel

_PIPELINE_FIELDS: Final = ("parallel.pp", "parallel.virtual_stages", "parallel.schedule")
_AXES: Final = ("pp", "dp", "cp", "tp")
_DEGREES: Final = ("parallel.tp", "parallel.pp", "parallel.cp", "parallel.dp")
_MOST_STAGES_SHOWN: Final = 64
_MOST_DEGREES_SHOWN: Final = 16


def plan_layout(
    scenario: ScenarioBlock,
    model: Architecture | SyntheticModel | None,
    gpus: int | None,
    findings: Findings,
    *,
    table: PipelineSchedule | None = None,
) -> Strategy | None:
    """Complete and check the parallel layout.

    Parameters
    ----------
    scenario : ScenarioBlock
    model : Architecture or SyntheticModel or None
        None when it could not be read; what can be checked without it still is.
    gpus : int or None
        GPUs of the cluster; None when it could not be built.
    findings : Findings
    table : PipelineSchedule, optional
        The pipeline schedule that a file holds.

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
    synthetic = None if model is None or isinstance(model, Architecture) else model
    pipeline = choose_pipeline(parallel, synthetic, table, findings)
    pp = pipeline.pp
    if synthetic is not None:
        _check_synthetic(parallel, pipeline, synthetic.stages, findings)
    elif isinstance(model, Architecture):
        _check_tensor(parallel, model, gpus, findings)
        _check_stages(parallel, model, pipeline, gpus, findings)
    order = _order(parallel, findings)
    dp = _data_degree(parallel, model, pp, gpus, findings)
    replicas = 1 if dp is None else dp * parallel.cp
    experts = replicas * parallel.tp // (parallel.ep * (parallel.expert_tp or parallel.tp))
    kind = parallel.data_parallel or ("ddp" if max(replicas, experts) > 1 else "none")
    if kind == "none" and max(replicas, experts) > 1 and findings.sound("parallel.data_parallel"):
        what = f"{'dp' if parallel.cp == 1 else 'dp x cp'} = {replicas} copies of the model"
        findings.add(
            "parallel.data_parallel",
            f"leaves {what if replicas > 1 else f'{experts} copies of the experts'} without anything that joins their "
            "gradients",
            allowed=", ".join(name for name in STRATEGIES if name != "none"),
            fix=f"choose one of these, or set cluster.gpus to {parallel.tp * pp}"
            if parallel.cp == 1
            else "choose one of these",
        )
    if dp is None or not findings.sound(*_DEGREES, "parallel.ep", "parallel.expert_tp", "parallel.order"):
        return None
    options = data_parallel_options(scenario)
    check_options(options, kind, findings, megatron=max(parallel.tp, pp, parallel.cp) > 1)
    check_threads(scenario, kind, parallel.tp * pp * parallel.cp * parallel.ep, findings)
    check_offload(scenario, kind, findings)
    if kind == "dataparallel" and scenario.training.sync_batch_norm:  # pytorch/pytorch torch/nn/modules/batchnorm.py
        fix = "set parallel.data_parallel: ddp"
        findings.add("training.sync_batch_norm", "needs a process per GPU, which dataparallel has not", fix=fix)
    if kind == "dataparallel" and isinstance(model, DualEncoder):
        fix = "set parallel.data_parallel: ddp"
        findings.add("parallel.data_parallel", "gathers features of no other process: it is a single one", fix=fix)
    inside = {"tp": parallel.tp, "cp": parallel.cp, "pp": pp}
    stride = prod(inside.get(axis, 1) for axis in order[order.index("dp") + 1 :])
    strategy = Strategy(
        tp=parallel.tp,
        pp=pp,
        cp=parallel.cp,
        dp=dp,
        dp_shard=sub_group_size(scenario, kind, dp, stride, gpus or 1, findings) if dp > 1 else None,
        ep=parallel.ep,
        expert_tp=parallel.expert_tp,
        cp_comm_type=parallel.cp_comm_type,
        tp_overlap=parallel.tp_overlap,
        order=order,
        sequence_parallel=parallel.sequence_parallel and parallel.tp > 1,
        schedule=pipeline.schedule,
        virtual_stages=pipeline.virtual,
        table=pipeline.table,
        pipeline_microbatches=parallel.pipeline_microbatches if pp > 1 else None,
        overlap_p2p=parallel.overlap_p2p,
        scatter_gather=parallel.scatter_gather_tensors_in_pipeline,
        layers_per_stage=tuple(parallel.layers_per_stage) if parallel.layers_per_stage else None,
        data_parallel=kind,
        ddp=options.ddp,
        zero=options.zero,
        fsdp=options.fsdp,
        distributed_optimizer=options.distributed_optimizer,
    )
    check_experts(strategy, findings)
    if strategy.cp > 1 and strategy.divided and kind == "zero3":
        findings.add("parallel.cp", "is not simulated with ZeRO++, which knows no context parallelism", allowed="1")
    return strategy


def _data_degree(
    parallel: ParallelBlock, model: Architecture | SyntheticModel | None, pp: int, gpus: int | None, findings: Findings
) -> int | None:
    if not findings.sound(*_DEGREES) or gpus is None:
        return None
    model_ranks = parallel.tp * parallel.cp * pp
    names, sizes = "tp x pp", f"{parallel.tp} x {pp}"
    if parallel.cp > 1:
        names, sizes = "tp x cp x pp", f"{parallel.tp} x {parallel.cp} x {pp}"
    if gpus % model_ranks:
        field = "parallel.tp" if parallel.tp > 1 and gpus % pp == 0 else "parallel.pp"
        if parallel.cp > 1 and gpus % (parallel.tp * pp) == 0:
            field = "parallel.cp"
        degrees = tensor_degrees if field == "parallel.tp" else pipeline_degrees
        below, above = gpus // model_ranks * model_ranks, (gpus // model_ranks + 1) * model_ranks
        findings.add(
            field if findings.value(field) is not None else "cluster.gpus",
            f"{names} = {sizes} = {model_ranks} does not divide the {gpus} GPUs",
            allowed=f"{field} one of {_list(degrees(model, parallel, gpus))}"
            if isinstance(model, Architecture) and field != "parallel.cp"
            else f"parallel.cp one of {_list(context_degrees(parallel, pp, gpus))}"
            if field == "parallel.cp"
            else None,
            fix=f"set cluster.gpus to {below or above}, or choose other degrees",
        )
        return None
    dp = gpus // model_ranks
    if parallel.dp is not None and parallel.dp != dp:
        findings.add(
            "parallel.dp",
            f"{names} x dp = {sizes} x {parallel.dp} = {model_ranks * parallel.dp} "
            f"is not the {gpus} GPUs of the cluster",
            allowed=str(dp),
            fix=f"leave dp out, or set cluster.gpus to {model_ranks * parallel.dp}",
        )
        return None
    return dp


def _check_tensor(parallel: ParallelBlock, model: Architecture, gpus: int | None, findings: Findings) -> None:
    problems = tensor_problems(model, parallel.tp) if findings.sound("parallel.tp") else []
    if problems:
        allowed = tensor_degrees(model, parallel, gpus)
        problem, fix = ", and ".join(problems), f"set parallel.tp to {nearest(parallel.tp, allowed)}"
        findings.add("parallel.tp", problem, allowed=_list(allowed), fix=fix)


def _check_stages(
    parallel: ParallelBlock, model: Architecture, pipeline: PipelineChoice, gpus: int | None, findings: Findings
) -> None:
    if not findings.sound("parallel.pp", "parallel.virtual_stages", "parallel.layers_per_stage"):
        return
    given, pp, stages = parallel.layers_per_stage, pipeline.pp, pipeline.stages
    equal = _even(model.layers, stages)
    if given is None and pipeline.table is not None:
        if model.layers % stages:
            problem = f"has {stages} stages, which do not divide the {model.layers} layers of {model.name}"
            fix = f"write parallel.layers_per_stage: {equal}" if equal else "use a schedule of fewer stages"
            findings.add("parallel.schedule", problem, fix=fix)
    elif given is None:
        degrees = pipeline_degrees(model, parallel, gpus, stages_per_rank=pipeline.stages_per_rank)
        if pipeline.virtual > 1:
            degrees = [degree for degree in degrees if degree > 1]  # a single rank has nothing to interleave
        allowed = _list(degrees) or None
        makes = f"makes {stages} stages, {pipeline.stages_per_rank} a rank,"
        does = "does" if stages == pp else f"{makes} which do"
        if stages > model.layers:
            more = "is more stages" if stages == pp else f"{makes} more"
            findings.add("parallel.pp", f"{more} than the {model.layers} layers of {model.name}", allowed=allowed)
        elif model.layers % stages:
            by_hand = f"write parallel.layers_per_stage: {equal}" if equal else None
            if by_hand and gpus is not None and gpus % (pp * parallel.tp * parallel.cp):
                by_hand = f"take a multiple of {pp * parallel.tp * parallel.cp} GPUs and {by_hand}"
            choose = "choose one of these, or " if allowed else ""
            findings.add(
                "parallel.pp",
                f"{does} not divide the {model.layers} layers of {model.name}",
                allowed=allowed,
                fix=f"{choose}{by_hand}" if by_hand else None,
            )
    elif len(given) != stages:
        problem = f"has {len(given)} entries for {stages} pipeline stages"
        findings.add("parallel.layers_per_stage", problem, fix=f"use {equal}" if equal else None)
    elif sum(given) != model.layers:
        problem = f"sums to {sum(given)}, not to the {model.layers} layers of {model.name}"
        findings.add("parallel.layers_per_stage", problem, fix=f"use {equal}" if equal else None)


def _check_synthetic(parallel: ParallelBlock, pipeline: PipelineChoice, stages: int, findings: Findings) -> None:
    if pipeline.stages != stages and findings.sound("parallel.pp", "parallel.virtual_stages", "parallel.schedule"):
        plain = pipeline.stages == pipeline.pp
        findings.add(
            next((name for name in _PIPELINE_FIELDS if findings.value(name) is not None), "parallel.pp"),
            f"{'is' if plain else f'makes {pipeline.stages} stages,'} not the {stages} stages of the synthetic model",
            allowed=str(stages) if plain else None,
            fix=f"leave parallel.pp out, or set model.stages to {pipeline.stages}",
        )
    if parallel.tp != 1:
        findings.add("parallel.tp", "a synthetic model has nothing that tensor parallelism could split", allowed="1")
    for field, degree in (("cp", parallel.cp), ("ep", parallel.ep)):
        if degree > 1:
            findings.add(f"parallel.{field}", "a synthetic model has nothing that it could split", allowed="1")
    if parallel.layers_per_stage is not None:
        findings.add("parallel.layers_per_stage", "a synthetic model has stages, not layers", fix="leave it out")


def _order(parallel: ParallelBlock, findings: Findings) -> tuple[str, ...]:
    if parallel.order is None or not findings.sound("parallel.order"):
        return _AXES
    order = tuple(parallel.order)
    if "cp" not in order and parallel.cp == 1 and "dp" in order:  # a single rank: anywhere
        order = (*order[: order.index("dp") + 1], "cp", *order[order.index("dp") + 1 :])
    if sorted(axis for axis in order if axis != "ep") != sorted(_AXES) or len(set(order)) != len(order):
        axes = [axis for axis in _AXES if axis != "cp" or parallel.cp > 1]
        absent = [axis for axis in axes if axis not in order]
        twice = [axis for axis in dict.fromkeys(order) if order.count(axis) > 1]
        wrong = [f"leaves out {' and '.join(absent)}"] if absent else []
        wrong += [f"names {' and '.join(twice)} twice"] if twice else []
        mended: list[str] = [*dict.fromkeys(parallel.order)]
        for axis in absent:  # behind its neighbour in the usual order
            before = [other for other in _AXES[: _AXES.index(axis)] if other in mended]
            mended.insert(mended.index(before[-1]) + 1 if before else 0, axis)
        findings.add(
            "parallel.order",
            " and ".join(wrong),
            allowed=f"{', '.join(axes[:-1])} and {axes[-1]} in some order, slowest first",
            fix=f"such as [{', '.join(mended)}]",
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
