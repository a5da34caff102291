"""Arguments of LLaMA-Factory that change neither time nor memory of a step, or not here.

Names: hiyouga/LLaMA-Factory ``src/llamafactory/hparams/*_args.py`` (0.7 to 0.9.5), and the newer form's configuration.
"""

from __future__ import annotations

from typing import Final

_PACKED: Final = "attention over packed sequences is simulated as over one whole"
PRICED: Final = {
    "use_asft_loss": "the reference model and its pass are not simulated",
    "use_adam_mini": "Adam-mini keeps a moment per block; whole moments are kept here",
    "use_muon": "Muon's orthogonalisation is not simulated: it is priced as the optimizer that optim names",
    "mixture_of_depths": "tokens that skip layers are not simulated: all pass through all",
    "neat_packing": _PACKED,
    "use_packed_sequences": _PACKED,
    "shift_attn": "shifted sparse attention is not simulated: attention is whole",
    "use_unsloth": "its kernels are not simulated",
    "use_unsloth_gc": "its copies of activations to the host are left out",
    "upcast_layernorm": "norms have weights in fp32 there, and in the format of the others here",
    "upcast_lmhead_output": "the copy of all logits in fp32 is not simulated",
    "use_v1_kernels": "its kernels are simulated as the preset's",
    "use_dft_loss": "its loss is priced as cross-entropy",
    "use_eaft_loss": "its loss is priced as cross-entropy",
}
"""Switches that are not simulated, and what is instead."""
FP8_PRICED: Final = {"fp8_enable_fsdp_float8_all_gather": "weights are gathered as they are stored"}
"""Those beside fp8."""
MEGATRON_PRICED: Final = {
    "cross_entropy_loss_fusion": "the loss is simulated with the preset's kernels",
    "moe_shared_expert_overlap": "shared experts run before or after the exchange of tokens, and not under it",
    "overlap_moe_expert_parallel_comm": "the exchange of tokens is not hidden under another micro-batch",
    "delay_wgrad_compute": "weight gradients are computed with those of the inputs",
}
"""Those of its Megatron backends."""
_MODEL: Final = (
    "adapter_name_or_path", "adapter_folder", "resize_vocab", "split_special_tokens", "add_tokens",
    "add_special_tokens", "new_special_tokens_config", "init_special_tokens", "low_cpu_mem_usage", "rope_scaling",
    "moe_aux_loss_coef", "use_reentrant_gc", "train_from_scratch",
    "infer_backend", "offload_folder", "use_kv_cache", "infer_dtype", "hf_hub_token", "ms_hub_token",
    "om_hub_token", "print_param_status", "device_map", "quantization_method", "quantization_type",
    "double_quantization", "quantization_device_map", "image_max_pixels", "image_min_pixels",
    "image_do_pan_and_scan", "image_resolution", "crop_to_patches", "video_max_pixels", "video_min_pixels",
    "video_resolution", "video_fps", "video_maxlen", "use_audio_in_video", "audio_sampling_rate", "export_dir",
    "export_size", "export_device", "export_quantization_bit", "export_quantization_dataset",
    "export_quantization_nsamples", "export_quantization_maxlen", "export_legacy_format", "export_hub_model_id",
    "vllm_maxlen", "vllm_gpu_util", "vllm_enforce_eager", "vllm_max_lora_rank", "vllm_config", "sglang_maxlen",
    "sglang_mem_fraction", "sglang_tp_size", "sglang_config", "export_hf_on_finish",
    "use_cache", "use_fast_tokenizer", "cache_dir", "megatron_pretrained_checkpoint", "model_class",
)  # fmt: skip
_DATA: Final = (
    "template", "dataset", "eval_dataset", "dataset_dir", "media_dir", "train_on_prompt", "mask_history", "streaming",
    "buffer_size", "mix_strategy", "interleave_probs", "preprocessing_batch_size", "max_samples", "eval_num_beams",
    "val_size", "eval_on_each_dataset", "packing", "tool_format", "default_system", "enable_thinking",
    "preserve_thinking", "tokenized_path", "data_shared_file_system", "reserved_label_len", "train_dataset",
    "sample_backend", "max_new_tokens", "batching_strategy", "batching_workers",
    "predict_with_generate", "temperature", "top_p", "top_k", "repetition_penalty",
)  # fmt: skip
_FINETUNING: Final = (
    "finetuning_type", "stage", "additional_target", "use_dora", "create_new_adapter", "lora_alpha", "lora_dropout",
    "loraplus_lr_ratio", "loraplus_lr_embedding", "pissa_init", "pissa_iter", "pissa_convert",
    "freeze_extra_modules", "freeze_trainable_layers", "freeze_trainable_modules",
    "use_llama_pro", "pref_beta", "pref_ftx", "pref_bco_weight",
    "pref_loss", "dpo_label_smoothing", "kto_chosen_weight", "kto_rejected_weight", "simpo_gamma", "ref_model",
    "ref_model_adapters", "ref_model_quantization_bit", "reward_model", "reward_model_adapters", "reward_model_type",
    "reward_model_quantization_bit", "galore_target", "galore_rank", "galore_update_interval", "galore_scale",
    "galore_proj_type", "galore_layerwise", "apollo_target", "apollo_rank", "apollo_update_interval", "apollo_scale",
    "apollo_proj", "apollo_proj_type", "apollo_scale_type", "apollo_layerwise", "apollo_scale_front", "badam_mode",
    "badam_start_block", "badam_switch_mode", "badam_switch_interval", "badam_update_ratio", "badam_mask_mode",
    "badam_verbose", "asft_alpha", "eaft_alpha",
    "compute_accuracy", "disable_shuffling", "early_stopping_steps", "plot_loss", "predict_with_generate",
    "include_effective_tokens_per_second", "do_predict", "use_swanlab", "swanlab_project", "swanlab_workspace",
    "swanlab_run_name", "swanlab_mode", "swanlab_api_key", "swanlab_logdir", "swanlab_lark_webhook_url",
    "swanlab_lark_secret", "ray_run_name", "ray_storage_path", "resources_per_worker",
    "placement_strategy", "ray_init_kwargs", "master_addr", "master_port", "save_ckpt_as_hf", "save_epochs",
)  # fmt: skip
_VERSION_ONE: Final = (
    "kernel_config.name", "kernel_config.include_kernels", "kernel_config.chunk_size", "quant_config.name",
    "quant_config.quantization_type",
    "quant_config.double_quantization", "quant_config.compute_dtype", "dist_config.pin_memory",
    "init_config", "lr_scheduler_config", "peft_config.name",
    "peft_config.r", "peft_config.lora_alpha", "peft_config.lora_dropout", "peft_config.target_modules",
    "peft_config.freeze_trainable_layers", "peft_config.freeze_trainable_modules", "dist_config.dcp_path",
    "dist_config.ep_dispatcher", "dist_config.cp_mode", "dist_config.mixed_precision",
    "bias_activation_fusion", "apply_rope_fusion", "masked_softmax_fusion", "cross_entropy_loss_fusion",
    "moe_grouped_gemm", "mixed_precision", "moe_token_dispatcher_type", "recompute_method", "fp8_backend",
    "fp8_enable_fsdp_float8_all_gather",
)  # fmt: skip
IDLE: Final = (*_MODEL, *_DATA, *_FINETUNING, *_VERSION_ONE)
"""Names; all below one that is a mapping too."""
