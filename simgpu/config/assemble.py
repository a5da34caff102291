"""From one validated draft to one case."""

from __future__ import annotations

from simgpu.config.adaptation import check_adaptation
from simgpu.config.batch import solve_batch
from simgpu.config.case import Case
from simgpu.config.findings import Findings
from simgpu.config.inputs import Inputs
from simgpu.config.layout import plan_layout
from simgpu.config.link_disorder import disorder_links
from simgpu.config.magnitude import check_magnitude
from simgpu.config.nccl_choice import measured_elsewhere, measured_groups, nccl_choice
from simgpu.config.op_costs import op_costs
from simgpu.config.pipeline_choice import check_microbatches
from simgpu.config.pipeline_warnings import pipeline_warnings
from simgpu.config.rank_disorder import disorder_ranks
from simgpu.config.recipe import build_training, default_dropout
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.config.software_choice import check_software, choose_software
from simgpu.config.structure import check_structure
from simgpu.config.timed_schedule import with_timed_schedule
from simgpu.config.training_block import TrainingBlock
from simgpu.hardware.cluster import Cluster
from simgpu.lower.perturbation import UNDISTURBED
from simgpu.parallel.data_parallel_options import WITHOUT_PIPELINES
from simgpu.parallel.strategy import Strategy
from simgpu.workload.architecture import Architecture
from simgpu.workload.families import layout_issues
from simgpu.workload.software import DEFAULT, Software
from simgpu.workload.synthetic import SyntheticModel
from simgpu.workload.training import Training


def assemble(name: str, findings: Findings, inputs: Inputs) -> Case | None:
    """Check a draft from top to bottom and make a case of it.

    Parameters
    ----------
    name : str
        What reports call the case.
    findings : Findings
        Around the draft; gets every issue.
    inputs : Inputs
        Reads models and clusters.

    Returns
    -------
    Case or None
        None when there are issues.
    """
    scenario = check_structure(findings)
    if scenario is None:
        return None
    nccl = nccl_choice(scenario, inputs, findings)
    model = inputs.model(scenario.model, findings) if findings.sound("model") else None
    cluster, perturbation = None, UNDISTURBED
    host_notes: tuple[str, ...] = ()
    if findings.sound("cluster"):
        cluster = inputs.cluster(scenario.cluster, findings)
        if cluster is not None:
            if nccl.host:
                from simgpu.config.measured_host import measured_host  # only measured copies pay for it

                cluster, host_notes = measured_host(cluster, nccl.host)
            perturbation = disorder_ranks(cluster, scenario.perturb, findings)
            cluster = disorder_links(cluster, scenario.perturb, findings)
    elif findings.sound("cluster.topology"):
        inputs.check_topology(scenario.cluster.topology, findings)
    block = scenario.training
    if block.sequence_length is None and isinstance(model, Architecture):
        block = block.model_copy(update={"sequence_length": model.fixed_sequence})
    if block.sequence_length is None and isinstance(model, Architecture) and findings.sound("training.sequence_length"):
        findings.add("training.sequence_length", "is missing", fix="add the tokens per sequence, such as 4096")
    # Without a cluster the number asked for still lets the degrees and the batch be checked.
    gpus = (
        cluster.world_size if cluster is not None else scenario.cluster.gpus if findings.sound("cluster.gpus") else None
    )
    if isinstance(model, Architecture):
        _check_sequence(model, block, findings)
        _check_precision(scenario, cluster, findings)
    table = inputs.schedule(scenario.parallel.schedule, findings)
    strategy = plan_layout(scenario, model, gpus, findings, table=table)
    batch = None if strategy is None else solve_batch(block, strategy.dp, findings)
    if strategy is not None and batch is not None and not findings.issues:
        check_microbatches(strategy, batch[1], findings)
    costs = op_costs(scenario, cluster, inputs, findings)
    check_software(scenario, cluster, findings)
    if block.recompute_layers is not None and block.recompute == "none" and findings.sound("training.recompute"):
        fix = "set training.recompute to full or selective, or leave it out"
        findings.add("training.recompute_layers", "has no effect: training.recompute is none", fix=fix)
    if findings.issues or model is None or cluster is None or strategy is None or batch is None:
        return None
    software = choose_software(scenario)
    training = build_training(
        block,
        micro_batch_size=batch[0],
        accumulation=batch[1],
        data_parallel=strategy.data_parallel,
        model_parallel=strategy.model_parallel,
        dropout=default_dropout(model, software),
    )
    check_magnitude(model, training, strategy, findings)
    if isinstance(model, Architecture):
        _check_shard(model, training, strategy, software, findings)
    if not findings.issues:
        check_adaptation(model, training, block, findings)
    if findings.issues:
        return None
    case = Case(
        name=name,
        cluster=cluster,
        model=model,
        training=training,
        strategy=strategy,
        network_free=scenario.network == "free",
        nccl=nccl.settings,
        costs=costs,
        software=software,
        perturbation=perturbation,
        price_per_gpu_hour=scenario.price_per_gpu_hour,
        train_tokens=block.train_tokens,
        framework=scenario.framework,
        warnings=(
            *pipeline_warnings(scenario.parallel, model, training, strategy),
            *_warnings(scenario, strategy),
            *_token_note(model),
            *inputs.warnings(scenario.model),
            *nccl.notes,
            *host_notes,
            *measured_groups(nccl.settings, cluster),
            *measured_elsewhere(nccl.gpus, cluster),
        ),
    )
    return with_timed_schedule(case)


def _token_note(model: Architecture | SyntheticModel) -> tuple[str, ...]:
    """Say what a token is where the model reads images."""
    fixed = model.fixed_sequence if isinstance(model, Architecture) else None
    if fixed is None:
        return ()
    return (f"an image of {model.name} counts as {fixed} token{'s' if fixed > 1 else ''}, in tokens/s too",)


def _check_sequence(model: Architecture, block: TrainingBlock, findings: Findings) -> None:
    """Check the sequence as far as that goes without the layout and the batch."""
    if findings.sound("training.sequence_length", "training.precision"):
        recipe = TrainingBlock(sequence_length=block.sequence_length)
        training = build_training(
            recipe, micro_batch_size=1, accumulation=1, data_parallel="none", model_parallel=False
        )
        _check_shard(model, training, Strategy(), DEFAULT, findings)


def _check_shard(
    model: Architecture, training: Training, strategy: Strategy, software: Software, findings: Findings
) -> None:
    """Let the workload say what the degrees and the sequence do not fit."""
    found = layout_issues(
        model,
        training,
        tp=strategy.tp,
        sequence_parallel=strategy.sequence_parallel,
        software=software,
        splits=strategy.splits,
    )
    findings.adopt(found)


def _check_precision(scenario: ScenarioBlock, cluster: Cluster | None, findings: Findings) -> None:
    """Refuse arithmetic that the GPUs have no units for; a rate for it would be made up."""
    if cluster is None or not findings.sound("training.precision"):
        return
    gpu, precision = cluster.gpu(0), scenario.training.precision
    rates = {"bf16": gpu.bf16_tflops, "tf32": gpu.tf32_tflops, "fp8": gpu.fp8_tflops}
    if precision in rates and rates[precision] is None:
        given = findings.value("training.precision") is not None
        findings.add(
            "training.precision",
            f"{'' if given else 'is bf16 when left out: '}{gpu.name} ({gpu.arch}) has no {precision} arithmetic",
            allowed=", ".join(["fp16", "fp32", *(name for name, rate in rates.items() if rate is not None)]),
            fix=f"set training.precision to {'bf16' if precision == 'fp8' and gpu.bf16_tflops else 'fp16'}",
        )


def _warnings(scenario: ScenarioBlock, strategy: Strategy) -> tuple[str, ...]:
    warnings = []
    if strategy.pp > 1 and strategy.dp > 1 and strategy.data_parallel in WITHOUT_PIPELINES:
        warnings.append(f"DeepSpeed refuses {strategy.data_parallel} together with pp > 1; this is what it would cost")
    if strategy.ep > 1 and strategy.data_parallel == "zero3":
        # deepspeedai/DeepSpeed runtime/engine.py, _validate_zero3_moe_compatibility
        warnings.append(
            "DeepSpeed refuses its own MoE layers under ZeRO-3; this is AutoEP (release 0.19 on), which spreads the "
            "experts of Hugging Face models"
        )
    if scenario.price_per_gpu_hour is not None and scenario.training.train_tokens is None:
        warnings.append(
            "price_per_gpu_hour has no effect without training.train_tokens, the tokens of the whole training; "
            "add it for hours, GPU-hours and cost"
        )
    return tuple(warnings)
