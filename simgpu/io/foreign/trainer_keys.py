"""Arguments of Transformers' Trainer and of scripts built on it that change neither time nor memory of a step."""

from __future__ import annotations

from typing import Final

_ARGUMENTS: Final = (
    "output_dir", "overwrite_output_dir", "do_train", "do_eval", "do_predict", "num_train_epochs", "max_steps",
    "learning_rate", "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "warmup_ratio", "weight_decay",
    "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "optim_args", "optim_target_modules", "past_index",
    "torch_compile_backend", "torch_compile_mode",
    "average_tokens_across_devices", "label_smoothing_factor", "bf16_full_eval", "fp16_full_eval", "fp16_opt_level",
    "fp16_backend", "half_precision_backend",
    *(f"{way}_checkpointing_kwargs.{name}" for way in ("gradient", "activation") for name in (
        "use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop",
    )),
    "use_cache", "neftune_noise_alpha", "logging_strategy", "logging_steps", "logging_dir",
    "logging_first_step", "logging_nan_inf_filter", "log_on_each_node", "log_level", "log_level_replica",
    "include_num_input_tokens_seen", "include_tokens_per_second", "include_inputs_for_metrics", "include_for_metrics",
    "disable_tqdm", "report_to", "run_name", "project", "trackio_space_id", "trackio_bucket_id",
    "trackio_static_space_id", "evaluation_strategy", "eval_strategy", "eval_steps", "eval_delay", "eval_on_start",
    "eval_accumulation_steps", "eval_do_concat_batches", "eval_use_gather_object", "per_device_eval_batch_size",
    "per_gpu_eval_batch_size", "prediction_loss_only", "batch_eval_metrics", "save_strategy", "save_steps",
    "save_total_limit", "save_only_model", "save_on_each_node", "save_safetensors", "enable_jit_checkpoint",
    "push_to_hub", "push_to_hub_model_id", "push_to_hub_organization", "push_to_hub_token", "hub_model_id",
    "hub_strategy", "hub_token", "hub_private_repo", "hub_always_push", "hub_revision", "load_best_model_at_end",
    "metric_for_best_model", "greater_is_better", "ignore_data_skip", "restore_callback_states_from_checkpoint",
    "resume_from_checkpoint", "seed", "data_seed", "dataloader_drop_last",
    "dataloader_num_workers", "dataloader_pin_memory", "dataloader_persistent_workers", "dataloader_prefetch_factor",
    "dataloader_multiprocessing_context", "dataloader_in_order", "remove_unused_columns", "label_names",
    "group_by_length", "length_column_name", "train_sampling_strategy", "ddp_backend", "ddp_timeout",
    "fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap", "skip_memory_metrics", "local_rank",
    "jit_mode_eval", "ray_scope", "mp_parameters", "debug",
)  # fmt: skip
"""huggingface/transformers src/transformers/training_args.py, TrainingArguments of 4.0 to 5.24."""
_EXAMPLES: Final = (
    "model_type", "tokenizer_name", "cache_dir", "use_fast_tokenizer", "model_revision", "token",
    "use_auth_token", "trust_remote_code", "low_cpu_mem_usage", "dataset_name", "dataset_config_name", "train_file",
    "validation_file", "test_file", "max_train_samples", "max_eval_samples", "max_predict_samples", "streaming",
    "overwrite_cache", "validation_split_percentage", "preprocessing_num_workers", "keep_linebreaks",
    "num_warmup_steps", "checkpointing_steps", "with_tracking", "pad_to_max_length", "line_by_line",
    "mlm_probability", "ignore_mismatched_sizes", "source_prefix", "text_column", "summary_column", "task_name",
    "ignore_pad_token_for_loss", "num_beams",
)  # fmt: skip
"""huggingface/transformers examples/pytorch, their own arguments."""
_TRL: Final = (
    "router_aux_loss_coef", "chat_template_path", "dataset_text_field", "dataset_kwargs", "dataset_num_proc",
    "eos_token", "pad_token", "truncation_mode", "shuffle_dataset", "packing", "packing_strategy", "padding_free",
    "pad_to_multiple_of", "eval_packing", "completion_only_loss", "assistant_only_loss", "loss_type",
    "lora_alpha", "lora_dropout", "lora_target_parameters", "lora_modules_to_save", "lora_task_type", "use_rslora",
    "use_dora", "bnb_4bit_quant_type", "use_bnb_nested_quant", "bnb_4bit_quant_storage", "bnb_4bit_compute_dtype",
    "bnb_4bit_use_double_quant", "dataset_config", "dataset_train_split", "dataset_test_split", "dataset_streaming",
    "ignore_bias_buffers", "num_of_sequences", "chars_per_token", "dataset_batch_size",
    "gradient_checkpointing_use_reentrant",
    "model_init_kwargs.trust_remote_code", "model_init_kwargs.use_cache", "model_init_kwargs.revision",
    "model_init_kwargs.device_map", "model_init_kwargs.low_cpu_mem_usage",
    *(f"model_init_kwargs.quantization_config.{name}" for name in (
        "bnb_4bit_compute_dtype", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "bnb_4bit_quant_storage",
        "llm_int8_threshold", "llm_int8_skip_modules", "llm_int8_has_fp16_weight", "quant_method", "dequantize",
        "load_in_4bit", "load_in_8bit", "group_size", "desc_act", "sym", "damp_percent", "version", "zero_point",
    )),
)  # fmt: skip
"""huggingface/trl trl/trainer/{sft_config,model_config}.py and trl/scripts/utils.py."""
_RECIPES: Final = (
    "chat_template", "dataset_mixer", "dataset_splits", "dataset_configs", "dataset_mixture", "tokenizer_name_or_path",
    "auto_insert_empty_system_msg", "benchmarks", "callbacks", "hub_model_revision", "overwrite_hub_revision",
    "push_to_hub_revision", "wandb_entity", "wandb_project", "wandb_run_group", "system_prompt", "log_completions",
    "dataset_id_or_path", "tokenizer", "tags",
)  # fmt: skip
"""huggingface/alignment-handbook src/alignment/configs.py and recipes, huggingface/open-r1 src/open_r1/configs.py."""
_OTHERS: Final = (
    "data_path", "dataset", "dataset_dir", "dataset_path", "eval_data_path", "train_data_path", "train_files",
    "valid_data_path", "max_samples", "val_size", "template", "stage", "lazy_preprocess", "conv_template",
    "plot_loss", "padding_side", "rope_scaling", "lora_bias", "bias", "gradient_clipping", "sample_packing",
    "train_on_inputs", "use_reentrant", "revision", "_comment", "num_epochs", "evals_per_epoch", "validation_steps",
    "lr", "lr_scheduler", "lr_warmup_steps", "wandb_name", "wandb_mode", "wandb_watch",
    "wandb_log_model", "wandb_run_id", "tokenizer_type", "dataset_processes", "ray_run_name", "ray_num_workers",
    "tokenizer_path", "log_dir", "lora_weight_path", "use_wandb", "eval_batch_size", "log_interval",
)  # fmt: skip
"""lm-sys/FastChat, haotian-liu/LLaVA, QwenLM/Qwen, tatsu-lab/stanford_alpaca and others that take TrainingArguments."""
IDLE: Final = (*_ARGUMENTS, *_EXAMPLES, *_TRL, *_RECIPES, *_OTHERS)
"""Names; all below one that is a mapping too."""
_HUB: Final = "kernels of the hub are simulated as the preset's"
PRICED: Final = {
    "torch_empty_cache_steps": "emptying the cache every so many steps takes no time here",
    "full_determinism": "slower kernels that give equal results are not simulated",
    "activation_offloading": "activations stay on the GPU here",
    "use_kernels": _HUB,
    "model_init_kwargs.use_kernels": _HUB,
}
"""Arguments that are not simulated, and what is instead."""
SEVERAL_MODELS: Final = (
    "beta", "max_prompt_length", "max_completion_length", "num_generations", "reward_funcs", "reward_model_path",
    "ref_model_init_kwargs", "precompute_ref_log_probs", "rpo_alpha", "desirable_weight", "undesirable_weight",
    "use_vllm", "sft_model_path", "num_ppo_epochs", "cpo_alpha", "simpo_gamma",
)  # fmt: skip
"""Arguments that only preference and reinforcement learning have: huggingface/trl trl/trainer/*_config.py."""
