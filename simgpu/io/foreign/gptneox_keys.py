"""GPT-NeoX's options that change neither time nor memory of a step.

EleutherAI/gpt-neox megatron/neox_arguments/neox_args.py and deepspeed_args.py.
"""

from __future__ import annotations

from typing import Final

OPTIONS: Final = (
    "data_path", "train_data_paths", "valid_data_paths", "test_data_paths", "label_data_paths",
    "train_label_data_paths", "valid_label_data_paths", "test_label_data_paths", "train_data_weights",
    "valid_data_weights", "test_data_weights", "weight_by_num_documents", "weighted_sampler_alpha",
    "weighted_document_limit", "weight_decay", "data_impl", "dataset_impl", "mmap_warmup", "split", "vocab_file",
    "merge_file", "tokenizer_type", "num_workers", "eod_mask_loss", "short_seq_prob", "packing",
    "loss_on_targets_only", "masked_lm_prob", "mean_noise_span_length", "save", "load", "save_interval",
    "save_base_dir", "save_iters", "extra_save_iters", "s3_path", "s3_chunk_size", "no_save_optim", "no_save_rng",
    "no_load_optim", "no_load_rng", "checkpoint", "checkpoint_factor", "checkpoint_scale",
    "checkpoint_validation_with_forward_pass", "keep_last_n_checkpoints", "finetune", "config_files", "iteration",
    "tensorboard_dir", "tensorboard", "tensorboard_writer", "log_dir", "log_interval", "log_grad_norm",
    "log_grad_pct_zeros", "log_param_norm", "log_optimizer_states", "log_gradient_noise_scale",
    "gradient_noise_scale_n_batches", "gradient_noise_scale_cpu_offload", "use_wandb", "wandb_group", "wandb_team",
    "wandb_project", "wandb_host", "wandb_init_all_ranks", "wandb_run_name", "steps_per_print",
    "wall_clock_breakdown", "memory_breakdown", "dump_state", "git_hash", "peak_theoretical_tflops", "use_comet",
    "comet_project", "comet_workspace", "memory_profiling", "memory_profiling_path", "profile", "profile_backward",
    "profile_step_start", "profile_step_stop", "lr", "lr_decay_style", "lr_decay_iters", "lr_decay_fraction",
    "min_lr", "warmup", "override_lr_scheduler", "use_checkpoint_lr_scheduler", "train_iters", "train_epochs",
    "eval_iters", "eval_interval", "eval_tasks", "eval_results_prefix", "exit_interval", "gradient_clipping",
    "clip_grad", "hysteresis", "dynamic_loss_scale", "loss_scale", "loss_scale_window", "min_scale", "do_train",
    "do_valid", "do_test", "char_level_ppl", "seed", "scheduler", "optimizer", "init_method", "init_method_std",
    "output_layer_init_method", "use_cpu_initialization", "rotary_pct", "rotary_emb_base", "rotary_ndims",
    "rotary_save_freqs_buffer", "rms_norm_epsilon", "layernorm_epsilon", "scalenorm_epsilon", "use_bias_in_norms",
    "attention_softmax_in_fp32", "apply_query_key_layer_scaling", "make_vocab_size_divisible_by",
    "max_position_embeddings", "mlp_multiple_of", "mlp_type", "sliding_window_width", "output_layer_parallelism",
    "precision", "hidden_dropout", "attention_dropout", "scaled_upper_triang_masked_softmax_fusion",
    "scaled_masked_softmax_fusion", "bias_gelu_fusion", "bias_dropout_fusion", "rope_fusion", "layernorm_fusion",
    "rmsnorm_fusion", "mamba_selective_scan_fusion", "mamba_causal_conv_fusion", "mamba_inner_func_fusion",
    "mamba_selective_fp32_params", "mamba_use_bias_in_conv", "mamba_use_bias_in_linears", "te_columnparallel",
    "te_rowparallel", "te_layernorm_mlp", "te_mha", "te_fp8_format", "te_fp8_wgrad", "te_fp8_amax_history_len",
    "te_fp8_amax_compute_algo", "te_fp8_margin", "te_fp8_mha", "async_tensor_model_parallel_allreduce",
    "synchronize_each_layer", "checkpoint_num_layers", "checkpoint_in_cpu", "contiguous_checkpointing",
    "deepspeed_activation_checkpointing", "distributed_backend", "local_rank", "rank", "lazy_mpu_init", "hostfile",
    "master_addr", "master_port", "launcher", "deepspeed", "deepspeed_slurm", "deepspeed_mpi", "deepspeed_jsrun",
    "deepspeed_extra_args", "deepspeed_config", "deepspeed_config_path", "deepscale", "deepscale_config",
    "no_ssh_check", "force_multi", "user_script", "comment", "autotuning_run", "detect_nvlink_pairs",
    "adlr_autoresume", "adlr_autoresume_interval", "adlr_autoresume_object", "data_types", "pipe_partition_method",
    "text_gen_type", "temperature", "top_p", "top_k", "maximum_tokens", "sample_input_file", "sample_output_file",
    "num_samples", "recompute",
)  # fmt: skip
"""By name, underscores for dashes; what a reader has used counts as used."""
