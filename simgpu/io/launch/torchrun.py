"""``torchrun`` with the arguments of Transformers' Trainer: DDP, FSDP, or DeepSpeed's ZeRO."""

from __future__ import annotations

from simgpu.io.launch.deepspeed import CONFIG, deepspeed_config, to_json
from simgpu.io.launch.hf_config import FILE, model_file
from simgpu.io.launch.job import Files, Job, cannot
from simgpu.io.launch.script import LAUNCH, nccl_variables, rendezvous, script, torchrun
from simgpu.io.launch.trainer import script_variables, trainer_arguments


def write_torchrun(job: Job, head: tuple[str, ...]) -> Files:
    """Write a launch script and what it reads.

    Parameters
    ----------
    job : Job
    head : tuple of str
        Comments for the script.

    Returns
    -------
    mapping of file name to text

    Raises
    ------
    ScenarioError
        When Trainer cannot be told what the job asks for.
    """
    if job.kind == "dataparallel":
        problem = "is one process with a thread per GPU; torchrun starts a process for each"
        raise cannot("parallel.data_parallel", job.kind, problem, fix="set parallel.data_parallel: ddp")
    if job.kind == "distributed_optimizer":
        raise cannot("parallel.data_parallel", job.kind, "is Megatron's", fix="use --format megatron")
    for axis in ("tp", "pp", "cp", "ep"):
        degree = getattr(job.strategy, axis)
        if degree > 1:
            problem = "has no argument of Transformers' Trainer"
            raise cannot(f"parallel.{axis}", degree, problem, allowed="1", fix="use --format megatron or torchtitan")
    config = model_file(job)
    zero = job.kind.startswith("zero")
    rows = [*torchrun(job.nodes, job.gpus_per_node), *trainer_arguments(job, config)]
    text = script(
        head,
        command=[*rows, ["--deepspeed", CONFIG] if zero else []],
        variables={**rendezvous(job.nodes), **script_variables(config)},
        environment=nccl_variables(job.nccl),
    )
    files = {LAUNCH: text, FILE: to_json(config)}
    return {**files, CONFIG: to_json(deepspeed_config(job))} if zero else files
