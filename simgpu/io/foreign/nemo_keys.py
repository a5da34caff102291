"""NeMo's options that change neither time nor memory of a step.

NVIDIA/NeMo 1.x examples/nlp/language_modeling/conf and tuning/conf; NVIDIA/NeMo-Framework-Launcher
launcher_scripts/conf/training.
"""

from __future__ import annotations

from typing import Final

_BLOCKS: Final = (
    "run", "exp_manager", "hydra", "defaults", "name", "restore_from_path", "s3_checkpointing", "trainer", "inference",
    "model.data", "model.tokenizer", "model.nsys_profile", "model.ub_tp_comm_overlap_cfg", "model.optim.sched",
    "model.mcore_customization_config", "model.megatron_timer_kwargs", "model.peft", "model.custom",
)  # fmt: skip
"""Whole blocks; what of them decides is read."""
_MODEL: Final = (
    "init_method_std", "use_scaled_init_method", "ffn_dropout", "apply_query_key_layer_scaling", "layernorm_epsilon",
    "do_layer_norm_weight_decay", "pre_process", "post_process", "persist_layer_norm", "headscale", "openai_gelu",
    "normalize_attention_scores", "rotary_base", "rotary_percentage", "rotary_interleaved", "rope_scaling",
    "attention_type", "native_amp_init_scale", "native_amp_growth_interval", "hysteresis", "fp16_lm_cross_entropy",
    "grad_allreduce_chunk_size_mb", "grad_div_ar_fusion", "bias_activation_fusion", "bias_dropout_add_fusion",
    "bias_gelu_fusion", "masked_softmax_fusion", "gradient_accumulation_fusion", "apply_rope_fusion",
    "seed", "resume_from_checkpoint", "use_cpu_initialization", "onnx_safe",
    "apex_transformer_log_level", "gradient_as_bucket_view", "sync_batch_comm", "fp8_e4m3", "fp8_hybrid", "fp8_margin",
    "fp8_interval", "fp8_amax_history_len", "fp8_amax_compute_algo", "fp8_wgrad", "fp8_params",
    "fp8_dot_product_attention", "fp8_multi_head_attention", "reduce_amax",
    "use_emha", "batch_p2p_comm", "gc_interval", "mcore_gpt", "mcore_bert",
    "deterministic_mode", "seq_len_interpolation_factor", "get_attention_mask_from_fusion", "name", "precision",
    "dist_ckpt_format", "dist_ckpt_load_on_device", "dist_ckpt_parallel_save", "dist_ckpt_parallel_load",
    "dist_ckpt_parallel_dist_opt", "dist_ckpt_torch_dist_multiproc", "dist_ckpt_assume_constant_structure",
    "dist_ckpt_load_strictness", "fsdp_sharded_checkpoint", "fsdp_use_orig_params", "fsdp_grad_reduce_dtype",
    "fsdp_sharding_strategy", "activations_checkpoint_layers_per_pipeline", "nccl_communicator_config_path",
    "num_micro_batches_with_partial_activation_checkpoints", "validation_param_sync_overlap",
    "validation_drop_last", "enable_megatron_timers", "sharp", "cpu_offloading", "cpu_offloading_num_layers",
    "cpu_offloading_activations", "cpu_offloading_weights", "bert_binary_head", "use_te_rng_tracker",
    "tp_comm_overlap_ag", "tp_comm_overlap_rs", "tp_comm_overlap_rs_dgrad", "tp_comm_overlap_disable_qkv",
    "tp_comm_overlap_disable_fc1", "tp_comm_overlap_bootstrap_backend", "tp_comm_atomic_ag", "tp_comm_atomic_rs",
    "tp_comm_bulk_dgrad", "tp_comm_bulk_wgrad", "tp_comm_split_ag", "tp_comm_split_rs", "moe_aux_loss_coeff",
    "moe_z_loss_coeff", "moe_input_jitter_eps", "moe_token_dropping", "moe_token_dispatcher_type", "moe_grouped_gemm",
    "moe_pad_expert_input_to_capacity", "moe_token_drop_policy", "moe_per_layer_logging",
    "moe_router_load_balancing_type", "moe_router_pre_softmax", "moe_extended_tp", "moe_use_upcycling",
    "moe_dropout", "moe_frequency", "max_position_embeddings", "scale_positional_embedding", "answer_only_loss",
    "wgrad_deferral_limit", "reset_position_ids", "reset_attention_mask", "use_flash_attention", "restore_from_path",
    "save_nemo_on_validation_end", "hidden_act", "target",
)  # fmt: skip
_OPTIM: Final = (
    "lr", "weight_decay", "betas", "eps", "amsgrad", "bias_correction", "capturable", "master_weights",
    "contiguous_grad_buffer", "contiguous_param_buffer", "nccl_ub", "lock_timeout", "check_for_nan_in_grad",
    "pipeline_size", "grad_sync_dtype", "align_param_gather", "average_grad_sync", "store_params",
    "store_param_remainders", "with_scaled_states", "overlap_grad_sync", "overlap_param_sync", "bucket_cap_mb",
    "ddp_bucket_size", "dtype", "disable_distributed_parameters",
)  # fmt: skip
IDLE: Final = (*_BLOCKS, *(f"model.{name}" for name in _MODEL), *(f"model.optim.{name}" for name in _OPTIM))
"""By dotted name; what a reader has used counts as used."""
