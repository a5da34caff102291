"""Hugging Face Accelerate's configuration YAML, as ``accelerate config`` writes it.

Names and defaults: huggingface/accelerate ``src/accelerate/commands/config/config_args.py``,
``src/accelerate/utils/launch.py`` and ``utils/dataclasses.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.accelerate_kernels import kernels
from simgpu.io.foreign.device_filters import hostfile, included, named_gpus, remaining
from simgpu.io.foreign.document import mapping_of
from simgpu.io.foreign.fsdp_options import read_fsdp
from simgpu.io.foreign.host_list import uneven
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.number_formats import MIXED
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading
from simgpu.io.user_path import user_path
from simgpu.parallel.data_parallel_options import UNBUCKETED_MIB

KIND: Final = "accelerate"
MEGATRON: Final = "megatron_lm"
"""Key in ``open`` of a run whose replicas Megatron-LM joins."""
ROTATE_METHODS: Final = {"allgather": "all_gather", "alltoall": "p2p"}
"""How keys and values get around in PyTorch's context parallelism (set_rotate_method): the latter is a ring."""
_OF_THE_FILE: Final = (
    "gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device",
    "offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path", "zero3_save_16bit_model",
)  # fmt: skip
"""What a DeepSpeed file says, and Accelerate's configuration then must not."""
_CUDA: Final = ("no", "false", "multi_gpu", "fsdp", "deepspeed", "megatron_lm", "tp")
_IDLE: Final = (
    "compute_environment", "debug", "downcast_bf16", "enable_cpu_affinity", "machine_rank", "main_process_ip",
    "main_process_port", "main_training_function", "rdzv_backend", "same_network", "tpu_env", "tpu_name", "tpu_zone",
    "tpu_use_cluster", "tpu_use_sudo", "gpu_ids", "use_cpu",
    "command_file", "commands", "deepspeed_config.zero3_init_flag", "deepspeed_config.zero3_save_16bit_model",
    "deepspeed_config.gradient_clipping", "deepspeed_config.deepspeed_multinode_launcher",
    "deepspeed_config.deepspeed_hostfile", "deepspeed_config.offload_optimizer_nvme_path",
    "deepspeed_config.offload_param_nvme_path", "deepspeed_config.deepspeed_moe_layer_cls_names",
    "deepspeed_config.deepspeed_exclusion_filter", "deepspeed_config.deepspeed_inclusion_filter",
    "megatron_lm_config.megatron_lm_gradient_clipping",
    "megatron_lm_config.megatron_lm_learning_rate_decay_iters", "dynamo_config.dynamo_mode",
    "dynamo_config.dynamo_use_fullgraph", "dynamo_config.dynamo_use_dynamic",
    "dynamo_config.dynamo_use_regional_compilation", "fp8_config.margin", "fp8_config.interval",
    "fp8_config.fp8_format", "fp8_config.amax_history_length", "fp8_config.amax_history_len",
    "fp8_config.amax_compute_algorithm", "fp8_config.amax_compute_algo", "fp8_config.use_autocast_during_eval",
    "fp8_config.optimization_level", "mixed_precision_config", "use_mps_device", "log_dir", "tee", "role",
    "max_restarts", "rdzv_conf", "num_cpu_threads_per_process", "ipex_config.ipex",
    "mpirun_config.mpirun_hostfile", "mpirun_config.mpirun_ccl",
)  # fmt: skip
_BLOCKS: Final = {"fsdp": "fsdp_config", "deepspeed": "deepspeed_config", "megatron_lm": "megatron_lm_config"}
"""Blocks by the distributed type that reads them."""
_AXES: Final = ("dp_replicate", "dp_shard", "tp", "cp", "sp")
_AXES_IDLE: Final = (
    "sp_backend", "sp_seq_length", "sp_seq_length_is_variable", "sp_attn_implementation", "cp_backend",
    "cp_comm_strategy",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    """Return whether a file is an Accelerate configuration.

    Examples
    --------
    >>> recognise(Path("a.yaml"), "distributed_type: FSDP")
    True
    """
    data = mapping_of(text)
    return data is not None and ("distributed_type" in data or "compute_environment" in data)


def read_accelerate(path: Path, *, over: Sequence[Overrides] = ()) -> Reading:
    r"""Read an Accelerate configuration.

    Parameters
    ----------
    path : Path
    over : sequence of Overrides
        What stands above its values.

    Returns
    -------
    Reading
        A DeepSpeed file that it names is in ``open["deepspeed_config_file"]``.

    Raises
    ------
    ScenarioError
        When it does not run on NVIDIA GPUs, or asks for what is not simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.yaml"
    ...     _ = path.write_text("distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 2")
    ...     reading = read_accelerate(path)
    >>> reading.gpus, dict(reading.settings)
    (2, {'training.precision': 'bf16', 'parallel.data_parallel': 'ddp'})
    """
    ledger = Ledger(overridden(path, over))
    if "sagemaker" in (ledger.text("compute_environment") or "").lower():
        ledger.refuse("compute_environment", "starts a job on machines that the file does not describe")
    kind = (ledger.text("distributed_type") or "no").lower()
    if kind not in _CUDA:
        ledger.refuse("distributed_type", "does not run on NVIDIA GPUs", allowed=", ".join(_CUDA).upper())
    if ledger.flag("use_cpu"):
        ledger.refuse("use_cpu", "asks for a run without GPUs", allowed="false")
    settings: dict[str, Any] = {"cluster.nodes": ledger.integer("num_machines", least=1)}
    open_fields = []
    precision = ledger.choice("mixed_precision", MIXED)
    settings["training.precision"] = precision
    if precision is None:
        open_fields.append("training.precision")
    gpus = ledger.integer("num_processes", least=1)
    if kind in ("no", "false"):
        if gpus is not None and gpus > 1 and any("num_processes" in values.values for values in over):
            problem = "has no effect with distributed_type: NO, by which Accelerate starts one process"
            ledger.refuse(
                "num_processes", problem, fix="add --multi_gpu to the line, or set distributed_type: MULTI_GPU"
            )
        if gpus is not None and gpus > 1:
            ledger.note(f"num_processes: {gpus} has no effect with distributed_type: NO, which starts one process")
        gpus = 1
    elif kind == "multi_gpu":
        settings["parallel.data_parallel"] = "ddp"
    elif kind == "tp":  # of Accelerate 1.3 to 1.9
        settings["parallel.tp"] = ledger.integer("tp_config.tp_size", least=1)
    elif kind == "fsdp":
        settings |= read_fsdp(ledger, "fsdp_config", launched=True)
    elif kind == "deepspeed":
        settings |= _deepspeed(ledger)
        gpus, settings["cluster.nodes"] = _filtered(ledger, path.parent, gpus, settings["cluster.nodes"])
    else:
        settings |= megatron_plugin(ledger, "megatron_lm_config", precision)
    if ledger.flag("kt_config.enabled"):
        ledger.refuse("kt_config.enabled", "runs experts on the CPU, which is not simulated", allowed="false")
    settings |= parallel_axes(ledger, "parallelism_config", kind, processes=gpus)
    settings |= kernels(ledger, precision)
    ledger.idle(*_IDLE, *(block for other, block in _BLOCKS.items() if other != kind))
    return ledger.reading(KIND, settings, gpus=gpus, open_fields=open_fields)


def _deepspeed(ledger: Ledger) -> dict[str, Any]:
    named = ledger.text("deepspeed_config.deepspeed_config_file")
    if named is not None:
        ledger.open["deepspeed_config_file"] = named
        _said_twice(ledger)
        return {}
    stage = ledger.integer("deepspeed_config.zero_stage")
    if stage is None:
        stage = 2  # Accelerate's default
        ledger.note("deepspeed_config.zero_stage is left out: 2, Accelerate's default")
    settings: dict[str, Any] = {
        "parallel.data_parallel": f"zero{stage}" if stage else "ddp",
        "training.gradient_accumulation": ledger.integer("deepspeed_config.gradient_accumulation_steps", least=1),
    }
    for name, least in (("offload_optimizer", 1), ("offload_param", 3)):
        device = ledger.text(f"deepspeed_config.{name}_device")
        if device is not None and device.lower() != "none" and stage >= least:
            settings[f"zero.{name}"] = {"device": device.lower(), "pin_memory": False}
    return settings


def _filtered(ledger: Ledger, folder: Path, gpus: int | None, nodes: int | None) -> tuple[int | None, int | None]:
    """Count by the filters that Accelerate hands to DeepSpeed's launcher, which starts processes on several nodes."""
    block = "deepspeed_config.deepspeed"
    exclude, include = (ledger.text(f"{block}_{kind}clusion_filter") for kind in ("ex", "in"))
    if nodes in (None, 1) or ledger.text(f"{block}_multinode_launcher") == "standard" or not (exclude or include):
        return gpus, nodes
    named = ledger.text(f"{block}_hostfile")
    hosts = {} if named is None else hostfile(folder / user_path(named))
    if exclude is not None:
        left = remaining(hosts, exclude)
        if not left:
            problem, fix = "takes GPUs away that no hostfile beside it lists", "put the hostfile beside it"
            ledger.refuse(f"{block}_exclusion_filter", problem, fix=f"{fix}, or leave the filter out and give --gpus")
        ledger.open |= uneven(left)
        return sum(left), len(left)
    ledger.open |= uneven(named_gpus(str(include), hosts))
    return included(str(include), hosts)


def _said_twice(ledger: Ledger) -> None:
    """Refuse what Accelerate refuses beside a DeepSpeed file (DeepSpeedPlugin._deepspeed_config_checks)."""
    keys = [f"deepspeed_config.{name}" for name in _OF_THE_FILE]
    twice = [key for key in (*keys, "mixed_precision") if ledger.raw(key) is not None]
    if twice:
        problem = (
            "When using `deepspeed_config_file`, the following accelerate config variables will be ignored: "
            + ", ".join(twice)
        )
        fix = "specify them in the DeepSpeed config file, and remove them here"
        ledger.refuse("deepspeed_config.deepspeed_config_file", problem, fix=fix)


def megatron_plugin(ledger: Ledger, above: str, precision: str | None) -> dict[str, Any]:
    """Read the Megatron-LM plugin; formats are Megatron's at every degree.

    Parameters
    ----------
    ledger : Ledger
    above : str
        Where its options stand: a block of the configuration, or the launcher's options.
    precision : str or None

    Returns
    -------
    dict

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"launcher": {"megatron_lm_tp_degree": "2", "megatron_lm_use_distributed_optimizer": "true"}}
    >>> fields = megatron_plugin(Ledger(Document(source="run.sh", data=data)), "launcher", "bf16")
    >>> fields["parallel.tp"], fields["parallel.data_parallel"]
    (2, 'distributed_optimizer')
    """
    block = f"{above}.megatron_lm"
    ledger.open[MEGATRON] = above
    recompute = ledger.flag(f"{block}_recompute_activations")
    granularity = ledger.choice(f"{block}_recompute_granularity", {"full": "full", "selective": "selective"})
    settings: dict[str, Any] = {
        "parallel.tp": ledger.integer(f"{block}_tp_degree", least=1),
        "parallel.pp": ledger.integer(f"{block}_pp_degree", least=1),
        "training.gradient_accumulation": ledger.integer(f"{block}_num_micro_batches", least=1) or 1,
        "parallel.cp": ledger.integer(f"{block}_context_parallel_size", least=1),
        "parallel.ep": ledger.integer(f"{block}_expert_model_parallel_size", least=1),
        "training.recompute": granularity or (None if recompute is None else "selective" if recompute else "none"),
        "parallel.sequence_parallel": ledger.flag(f"{block}_sequence_parallelism"),
        "parallel.data_parallel": "distributed_optimizer",
        "software": "te",
    }
    if not ledger.flag(f"{block}_use_distributed_optimizer"):
        settings |= {"parallel.data_parallel": "ddp", "ddp.bucket_cap_mb": UNBUCKETED_MIB}
        if precision in ("bf16", "fp16"):
            settings |= {"training.param_dtype": precision, "training.master_dtype": "fp32"}
    return settings


def parallel_axes(ledger: Ledger, above: str, kind: str, *, processes: int | None = None) -> dict[str, Any]:
    """Read ``parallelism_config``; sizes of 1 or less are what is left out.

    Parameters
    ----------
    ledger : Ledger
    above : str
        Where its options stand: a block of the configuration, or the launcher's options.
    kind : str
        The distributed type.
    processes : int, optional
        Of the job, where the same file says how many.

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError
        When the sizes do not multiply to the processes (ParallelismConfig.validate_accelerator).

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"launcher": {"parallelism_config_tp_size": "2", "parallelism_config_dp_shard_size": "4"}}
    >>> parallel_axes(Ledger(Document(source="run.sh", data=data)), "launcher", "fsdp")
    {'parallel.tp': 2}
    """
    block = f"{above}.parallelism_config"
    sizes = {axis: ledger.integer(f"{block}_{axis}_size", least=-1) or 1 for axis in _AXES}
    total = math.prod(sizes.values())
    if processes is not None and total not in (1, processes):
        wrong = next(f"{block}_{axis}_size" for axis in _AXES if sizes[axis] > 1)
        product = " x ".join(f"{axis} {size}" for axis, size in sizes.items() if size > 1)
        problem = f"Accelerate: total_size ({total}) does not match num_processes ({processes}): {product}"
        ledger.refuse(wrong, problem, fix="set sizes whose product is num_processes")
    settings: dict[str, Any] = {}
    if sizes["tp"] > 1:
        settings["parallel.tp"] = sizes["tp"]
    if sizes["cp"] > 1:
        settings["parallel.cp"] = sizes["cp"]
        settings["parallel.cp_comm_type"] = ledger.choice(f"{block}_cp_comm_strategy", ROTATE_METHODS) or "all_gather"
    if sizes["sp"] > 1:
        settings |= {"parallel.cp": sizes["sp"], "parallel.cp_comm_type": "a2a"}
        settings["training.sequence_length"] = ledger.integer(f"{block}_sp_seq_length", least=1)
    if sizes["dp_replicate"] > 1:
        if sizes["dp_shard"] > 1:
            settings |= {"parallel.data_parallel": "hsdp", "fsdp.shard_size": sizes["dp_shard"]}
        elif kind != "fsdp":
            settings["parallel.data_parallel"] = "ddp"
    ledger.idle(*(f"{block}_{name}" for name in _AXES_IDLE))
    return settings
