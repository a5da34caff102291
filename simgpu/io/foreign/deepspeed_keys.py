"""Keys of DeepSpeed's configuration that change neither time nor memory of a step, or not here."""

from __future__ import annotations

from typing import Final

_WHOLE: Final = (
    "gradient_clipping", "steps_per_print", "wall_clock_breakdown", "memory_breakdown", "dump_state", "comms_logger",
    "comms_config", "monitor_config", "tensorboard", "wandb", "csv_monitor", "comet", "flops_profiler", "aio",
    "autotuning", "checkpoint", "nebula", "timers", "scheduler", "prescale_gradients",
    "gradient_predivide_factor", "gradient_accumulation_dtype", "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer", "dataloader_drop_last", "disable_allgather", "sparse_gradients",
    "seq_parallel_communication_data_type", "use_data_before_expert_parallelism", "load_universal_checkpoint",
    "managed_gradient_accumulation", "gradient_allreduce_op", "torch_autocast.enabled", "torch_autocast.dtype",
    "use_node_local_storage", "graph_harvesting", "hybrid_engine", "elasticity", "curriculum_learning",
    "data_efficiency", "progressive_layer_drop", "compression_training", "eigenvalue", "weight_quantization",
    "amp", "cuda_visible_devices", "log_level", "vocabulary_size", "torch_autocast.lower_precision_safe_modules",
    "optimizer.params", "optimizer.legacy_fusion", "pipeline.seed_layers", "pipeline.activation_checkpoint_interval",
    "pipeline.partition", "pipeline.pipe_partitioned", "pipeline.grad_partitioned", "pipeline.use_reentrant",
    "tensor_parallel.tp_grain_size", "tensor_parallel.dtype", "tensor_parallel.enabled",
    "tensor_parallel.preset_model", "tensor_parallel.partition_config", "tensor_parallel.vocab_parallel_ce_backend",
    "tensor_parallel.injection_policy_tuple",
    "tensor_parallel.keep_module_on_host", "tensor_parallel.replace_with_kernel_inject", "comment", "_*",
)  # fmt: skip
"""deepspeedai/DeepSpeed deepspeed/runtime/{config,constants,tensor_parallel/config}.py; blocks with all below them."""
_FORMATS: Final = {
    "fp16": (
        "auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale",
        "consecutive_hysteresis", "fp16_master_weights_and_grads", "type", "opt_level",
    ),
    **dict.fromkeys(("bf16", "bfloat16"), ("immediate_grad_update", "check_grad_overflow", "loss_scale")),
    "activation_checkpointing": (
        "partition_activations", "cpu_checkpointing", "contiguous_memory_optimization", "number_checkpoints",
        "synchronize_checkpoint_boundary", "profile",
    ),
    "compile": (
        "backend", "kwargs", "passes", "free_activation", "free_activation_threshold", "offload_activation",
        "offload_opt_states", "offload_parameters", "double_buffer", "symmetric_memory", "debug_log",
        "sync_before_reduce", "sync_after_reduce", "sync_before_allgather", "sync_after_allgather",
        "keep_int_input_tensors", "keep_all_input_tensors",
    ),
    "zero_optimization": (
        "sub_group_size", "load_from_fp32_weights", "elastic_checkpoint", "ignore_unused_parameters",
        "round_robin_gradients", "memory_efficient_linear", "override_module_apply", "log_trace_cache_warnings",
        "legacy_stage1", "pipeline_loading_checkpoint", "enable_sanity_checks", "save_muon_momentum_buffer_in_memory",
        "leaf_module", "mics_hierarchical_params_gather", "mics_shard_size", "cpu_offload_use_pin_memory",
        "stage3_gather_fp16_weights_on_model_save", "gather_fp16_weights_on_model_save", "allgather_partitions",
    ),
    "zero_optimization.offload_param": (
        "device", "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pin_memory", "pipeline_read",
        "pipeline_write",
    ),
    "zero_optimization.offload_optimizer": (
        "device", "nvme_path", "buffer_count", "buffer_size", "fast_init", "pin_memory", "pipeline_read",
        "pipeline_write", "pipeline", "convert_grad_on_cpu", "cpuadam_cores_perc",
    ),
}  # fmt: skip
"""deepspeed/runtime/{precision_config,compiler,activation_checkpointing/config}.py, deepspeed/compile/config.py,
deepspeed/runtime/zero/{config,offload_config}.py."""
_BOTH_SPELLINGS: Final = (
    "gather_16bit_weights_on_model_save", "max_reuse_distance", "model_persistence_threshold",
    "module_granularity_threshold", "partition_stream_chunk_size",
)  # fmt: skip
"""Of ZeRO's block, with ``stage3_`` in front and without (their aliases)."""
OF_OTHER_STAGES: Final = (
    "allgather_bucket_size", "reduce_bucket_size", "overlap_comm", "reduce_scatter", "contiguous_gradients",
    "use_multi_rank_bucket_allreduce", "cpu_offload", "cpu_offload_params", "cpu_offload_param",
    "stage3_prefetch_bucket_size", "prefetch_bucket_size", "stage3_param_persistence_threshold",
    "param_persistence_threshold", "stage3_max_live_parameters", "max_live_parameters", "zero_quantized_weights",
    "zero_quantized_gradients", "zero_hpz_partition_size",
)  # fmt: skip
"""Keys of ZeRO's block that some stage does not read."""
_ZERO: Final = "zero_optimization"
IDLE: Final = (
    *_WHOLE,
    *(f"{block}.{name}" for block, names in _FORMATS.items() for name in names),
    *(f"{_ZERO}.{front}{name}" for name in _BOTH_SPELLINGS for front in ("", "stage3_")),
    *(f"{_ZERO}.{name}" for name in OF_OTHER_STAGES),
)
NOT_SIMULATED: Final = {
    f"{_ZERO}.stage3_use_all_reduce_for_fetch_params": "weights are fetched with all-gathers here",
    f"{_ZERO}.use_all_reduce_for_fetch_params": "weights are fetched with all-gathers here",
    f"{_ZERO}.stage3_allgather_sequential": "weights are fetched in buckets here",
    f"{_ZERO}.allgather_sequential": "weights are fetched in buckets here",
    f"{_ZERO}.zero_quantized_nontrainable_weights": "frozen weights are in 16 bits here",
    f"{_ZERO}.offload_optimizer.super_offload": "the optimizer's steps on the CPU do not overlap backward here",
    f"{_ZERO}.zenflow": "all gradients are updated in every step here",
    f"{_ZERO}.zeropp_loco_param": "errors of quantization are not kept here",
    **dict.fromkeys(
        (f"{_ZERO}.stage3_module_granularity_threshold", f"{_ZERO}.module_granularity_threshold"),
        "weights of small modules are fetched one by one here, and together in the job",
    ),
    "tensor_parallel.tp_overlap_comm": "all-reduces of tensor parallelism are waited for here",
    "tensor_parallel.vocab_parallel_lm_head": "the head is divided as the other matrices are",
    "sparse_gradients": "gradients of the embedding are reduced whole here",
    "graph_harvesting": "kernels are issued one by one here, and replayed from graphs in the job",
    "eigenvalue.enabled": "the job computes eigenvalues of blocks besides, which takes time",
    "comms_logger.enabled": "the job waits for every collective to time it; here they overlap",
    "autotuning.enabled": "the file is simulated as it stands; the tuner tries other batches and stages",
    "activation_checkpointing.synchronize_checkpoint_boundary": "the job waits for the GPU at every checkpoint",
    "activation_checkpointing.profile": "the job waits for the GPU at every checkpoint",
    **dict.fromkeys(
        (f"compile.{name}" for name in ("offload_activation", "offload_opt_states", "offload_parameters")),
        "nothing is moved to host memory for it here",
    ),
    "compile.free_activation": "activations are kept to backward here",
}  # fmt: skip
"""Switches that change time or memory, and what is instead."""
