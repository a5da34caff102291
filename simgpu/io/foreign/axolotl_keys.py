"""Keys of Axolotl's configurations that change neither time nor memory of a step, or not here.

Names: axolotl-ai-cloud/axolotl ``src/axolotl/utils/schemas/*.py`` (0.4 to 0.19) and ``src/axolotl/integrations``.
"""

from __future__ import annotations

from typing import Final

_EXPERTS: Final = "kernels of experts are simulated as one grouped product"
_PRESET: Final = "its kernel is simulated as the preset's"
_PACKED: Final = "attention over packed sequences is simulated as over one whole"
_ALONE: Final = "adapters run in kernels of their own here"
_LOGITS: Final = "the logits are whole in memory here"
_HELD: Final = "all weights stay on the GPU here"
PRICED: Final = {
    "activation_offloading": "activations stay on the GPU here",
    "layer_offloading": _HELD,
    "ple_cpu_offload": _HELD,
    "max_memory": _HELD,
    "gpu_memory_limit": _HELD,
    "quantize_moe_experts": "experts are in 16 bits here",
    "dsv4_fp8_nonexpert_mode": "weights are in 16 bits here",
    "dsv4_fp4_grouped_mode": "weights are in 16 bits here",
    "qat": "weights and activations are not rounded here",
    "diffusion": "attention is causal here, and one pass is made",
    "reward_model": "trains a head with one output, which is simulated with the vocabulary's",
    "process_reward_model": "trains a head with two outputs, which is simulated with the vocabulary's",
    "num_labels": "trains a head with so many outputs, which is simulated with the vocabulary's",
    **dict.fromkeys(("use_sonicmoe", "use_scattermoe", "experts_implementation", "moe_backend", "use_dsv4_kernels",
                     "llama4_linearized_experts"), _EXPERTS),
    "use_kernels": "kernels of the hub are simulated as the preset's",
    **dict.fromkeys(("flash_attn_rms_norm", "flash_attn_fuse_mlp", "flash_attn_fuse_qkv", "liger_rope",
                     "liger_rms_norm", "liger_rms_norm_gated", "liger_layer_norm", "liger_swiglu",
                     "liger_glu_activation"), _PRESET),
    **dict.fromkeys(("sample_packing", "batch_flattening", "pretrain_multipack_attn"), _PACKED),
    **dict.fromkeys(("cut_cross_entropy", "chunked_cross_entropy"), _LOGITS),
    "use_eaft": "its loss is priced as cross-entropy",
    "tiled_mlp": "the MLP takes all tokens at once here",
    "selective_checkpointing": "blocks are recomputed as gradient_checkpointing says",
    "relora": "only its adapters are simulated",
    "peft_layers_to_transform": "all layers have adapters here",
    "peft_trainable_token_indices": "rows of the embedding are not trained here",
    "gc_steps": "emptying the cache takes no time here",
    **dict.fromkeys(("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel",
                     "fused_attn_kernel"), _ALONE),
    "fp8_enable_fsdp_float8_all_gather": "weights are gathered as they are stored",
    "lora_rank_pattern": "all adapters have the rank lora_r here",
    "gemma4_hybrid_attn_impl": "attention has one kernel in all layers here",
}  # fmt: skip
"""Switches that are not simulated, and what is instead."""
_DATA: Final = (
    "datasets", "test_datasets", "dataset_prepared_path", "dataset_shard_num", "dataset_shard_idx",
    "dataset_processes", "dataset_num_proc", "dataset_exact_deduplication", "dataset_keep_in_memory",
    "shuffle_merged_datasets", "shuffle_before_merging_datasets", "skip_prepare_dataset", "num_dataset_shards_to_save",
    "pretraining_dataset", "push_dataset_to_hub", "val_set_size", "train_on_inputs", "group_by_length",
    "sample_packing_group_size", "sample_packing_bin_size", "sample_packing_sequentially",
    "sample_packing_mp_start_method", "sample_packing_eff_est", "eval_sample_packing", "pad_to_sequence_len",
    "curriculum_sampling", "multipack_real_batches", "pretrain_multipack_buffer_size",
    "pretraining_sample_concatenation", "streaming", "streaming_multipack_buffer_size", "min_sample_len",
    "excess_length_strategy", "eval_sequence_len", "max_prompt_len", "total_num_tokens", "total_supervised_tokens",
    "is_preprocess", "preprocess_iterable", "dataset",
)  # fmt: skip
_TEXT: Final = (
    "tokenizer_config", "tokenizer_use_fast", "tokenizer_legacy", "tokenizer_use_mistral_common", "tokenizer_type",
    "tokenizer_save_jinja_files", "processor_type", "processor_kwargs", "special_tokens", "tokens",
    "added_tokens_overrides", "chat_template", "chat_template_jinja", "chat_template_kwargs", "eot_tokens",
    "default_system_message", "fix_untrained_tokens", "resize_token_embeddings_to_32x", "mean_resizing_embeddings",
    "shrink_embeddings", "embeddings_skip_upcast", "image_size", "image_resize_algorithm", "role_boundaries",
)  # fmt: skip
_MODEL: Final = (
    "base_model_config", "base_model_ignore_patterns", "cls_model_config", "model_type", "type_of_model",
    "revision_of_model", "model_revision",
    "trust_remote_code", "is_falcon_derived_model", "is_llama_derived_model", "is_mistral_derived_model",
    "is_qwen_derived_model", "reinit_weights",
    "dsv4_fp8_lora_kernel", "dsv4_shared_mlp_lora_kernel",
    "dsv4_bf16_all", "nvfp4_merge_aware",
    "gptq_disable_exllama", "bnb_config_kwargs", "device_map", "low_cpu_mem_usage",
    "hf_use_auth_token", "freeze_mm_modules", "load_in_8bit", "load_in_4bit", "rope_scaling",
    "noisy_embedding_alpha", "neftune_noise_alpha", "experimental_skip_move_to_device",
)  # fmt: skip
_ADAPTERS: Final = (
    "adapter", "lora_model_dir", "lora_alpha", "lora_dropout", "lora_fan_in_fan_out", "lora_modules_to_save",
    "lora_target_parameters", "lora_on_cpu", "lora_alpha_pattern", "loraplus_lr_ratio", "loraplus_lr_embedding",
    "peft", "peft_use_rslora", "peft_use_dora", "peft_init_lora_weights", "peft_layers_pattern",
    "peft_ensure_weight_tying",
    "qlora_sharded_model_loading", "merge_lora", "merge_method", "lora_out_dir", "relora_prune_ratio",
    "relora_prune_method", "relora_cpu_offload", "relora_steps", "relora_warmup_steps", "relora_anneal_steps",
)  # fmt: skip
_KERNELS: Final = (
    "flex_attn_compile_kwargs",
    "liger_use_token_scaling", "liger_kernel_impl", "chunked_cross_entropy_num_chunks", "tiled_mlp_num_shards",
    "tiled_mlp_use_original_mlp", "heads_k_stride", "ring_attn_func", "device",
)  # fmt: skip
_TRAINING: Final = (
    "strict", "plugins", "debug", "seed", "local_rank", "world_size", "ddp", "ddp_timeout", "num_epochs", "max_steps",
    "eval_batch_size", "lr_scheduler", "lr_scheduler_kwargs", "lr_quadratic_warmup", "lr_div_factor", "lr_groups",
    "cosine_min_lr_ratio", "cosine_constant_lr_ratio", "embedding_lr", "embedding_lr_scale", "weight_decay",
    "adam_beta3", "adam_epsilon2", "optim_args", "optim_target_modules", "early_stopping_patience",
    "loss_watchdog_threshold", "loss_watchdog_patience", "gc_collect_steps", "saves_per_epoch",
    "save_first_step", "evals_per_epoch", "eval_table_size", "eval_max_new_tokens", "eval_table_max_new_tokens",
    "do_causal_lm_eval", "eval_causal_lm_metrics", "do_bench_eval", "bench_dataset", "bench_split",
    "auto_resume_from_checkpoints", "resume_from_checkpoint", "dynamic_checkpoint", "include_tkps",
    "center_rewards_coefficient", "rl_beta", "dpo_beta",
    "trl", "vllm", "generate_samples", "num_generation_samples", "generation_max_new_tokens", "eaft_alpha",
    "eaft_k", "axolotl_config_path", "lisa_layers_attribute", "profiler_steps", "profiler_steps_start",
    "jagged_restart_steps", "jagged_restart_warmup_steps", "jagged_restart_anneal_steps",
)  # fmt: skip
_TRACKERS: Final = (
    "use_tensorboard", "use_wandb", "wandb_name", "wandb_run_id", "wandb_mode", "wandb_project", "wandb_entity",
    "wandb_watch", "wandb_log_model", "use_mlflow", "mlflow_tracking_uri", "mlflow_experiment_name", "mlflow_run_name",
    "hf_mlflow_log_artifacts", "use_comet", "comet_api_key", "comet_workspace", "comet_project_name",
    "comet_experiment_key", "comet_mode", "comet_online", "comet_experiment_config", "use_trackio",
    "trackio_project_name", "trackio_run_name", "trackio_space_id", "ray_run_name", "ray_num_workers",
    "resources_per_worker", "gradio_title", "gradio_share", "use_otel_metrics", "use_swanlab", "swanlab_project",
)  # fmt: skip
IDLE: Final = (*_DATA, *_TEXT, *_MODEL, *_ADAPTERS, *_KERNELS, *_TRAINING, *_TRACKERS)
"""Names; all below one that is a mapping too."""
