"""torchtitan's options that change neither time nor memory of a step.

pytorch/torchtitan torchtitan/config/job_config.py, from the first release to the last one with TOML (January 2026), and
torchtitan/config_manager.py of 2024.
"""

from __future__ import annotations

from typing import Final

_TABLES: Final = (
    "job", "profiling", "metrics", "lr_scheduler", "checkpoint", "validation", "debug", "dataset", "memory_estimation",
)  # fmt: skip
"""Whole tables, of logs, files and the learning rate."""
_OPTIONS: Final = (
    "model.hf_assets_path", "model.tokenizer_path", "model.norm_type", "model.print_after_conversion",
    "model.tokenizer_type", "optimizer.lr", "optimizer.eps", "optimizer.beta1", "optimizer.beta2",
    "optimizer.weight_decay", "training.dataset", "training.dataset_path", "training.steps", "training.max_norm",
    "training.warmup_steps", "training.seed", "training.deterministic", "training.gc_freq", "training.gc_debug",
    "training.data_parallel_type", "training.dataloader.num_workers", "training.dataloader.persistent_workers",
    "training.dataloader.pin_memory", "training.dataloader.prefetch_factor", "comm.init_timeout_seconds",
    "comm.train_timeout_seconds", "comm.trace_buf_size", "comm.save_traces_folder", "comm.save_traces_file_prefix",
    "experimental.custom_import", "experimental.custom_args_module", "experimental.custom_model_path",
    "parallelism.enable_compiled_autograd", "experimental.enable_compiled_autograd",
    "compile.backend", "compile.components",
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns", "activation_checkpoint.early_stop",
    "activation_checkpoint.preserve_rng_state", "activation_checkpoint.determinism_check",
    "activation_checkpoint.debug", "activation_checkpoint.selective_ac_option",
    "activation_checkpoint.memory_budget", "activation_checkpoint.visualize_memory_budget_pareto",
    "fault_tolerance.enable", "fault_tolerance.process_group", "fault_tolerance.process_group_timeout_ms",
    "fault_tolerance.replica_id", "fault_tolerance.group_size", "fault_tolerance.min_replica_size",
    "fault_tolerance.semi_sync_method",
)  # fmt: skip
_PIPELINE: Final = (
    "pipeline_parallel_schedule", "pipeline_parallel_schedule_csv", "pipeline_parallel_split_points",
    "module_fqns_per_model_part", "pipeline_parallel_first_stage_less_layers",
    "pipeline_parallel_last_stage_less_layers", "pipeline_parallel_layers_per_stage",
    "pipeline_parallel_microbatch_size", "pipeline_parallel_microbatches", "context_parallel_rotate_method",
    "context_parallel_load_balancer", "enable_async_tensor_parallel",
)  # fmt: skip
"""Of pipelines and contexts, which have no effect where the degree is 1; where it is more they are read."""
_FLOAT8: Final = (
    "enable_float8_linear", "enable_fsdp_float8_all_gather", "precompute_float8_dynamic_scale_for_fsdp",
    "force_recompute_fp8_weight_in_bwd",
    "filter_fqns", "emulate", "moe_fqns_prototype", "scaling_type_input", "scaling_type_weight",
    "scaling_type_grad_output", "recipe_name",
)  # fmt: skip
"""Of fp8, whose matrix products and scales are simulated as one recipe."""
_MX: Final = ("mxfp8_dim1_cast_kernel_choice", "recipe_name", "filter_fqns", "moe_fqns_prototype", "fqns",
              "use_fp8_dim1_cast_triton_kernel")  # fmt: skip
"""Of MX formats, which have no effect without their converter, and that is refused."""
IDLE: Final = (
    *_TABLES,
    *_OPTIONS,
    *(f"{table}.{name}" for table in ("parallelism", "experimental") for name in _PIPELINE),
    *(f"{table}.{name}" for table in ("float8", "quantize.linear.float8") for name in _FLOAT8),
    *(f"{table}.{name}" for table in ("mx", "quantize.linear.mx", "quantize.grouped_mm.mx") for name in _MX),
    "quantize.dense.float8.recipe_name", "quantize.grouped_mm.float8.fqns", "training.fp8_linear",
    "training.enable_fp8_linear",
)  # fmt: skip
"""By dotted name; what a reader has used counts as used."""
NOT_SIMULATED: Final = {
    "optimizer.early_step_in_backward": "the optimizer steps after backward here",
    "parallelism.disable_loss_parallel": "the loss is split over the vocabulary here",
    "training.disable_loss_parallel": "the loss is split over the vocabulary here",
    "fault_tolerance.enable": "replicas do not come and go here",
    **dict.fromkeys(
        ("training.deterministic", "debug.deterministic"), "kernels are the usual ones here, and the job's are slower"
    ),
    **dict.fromkeys(
        ("parallelism.enable_compiled_autograd", "experimental.enable_compiled_autograd"),
        "the graph of backward is not compiled here",
    ),
    "activation_checkpoint.early_stop": "the last product of a recomputed layer is computed again here",
    "activation_checkpoint.debug": "the job writes down every operation, which takes time",
}
"""Switches that would change the step, and what is simulated in their place."""
