"""Keys of Trainer and of programs on it that change a step: used, said or refused, and not called idle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simgpu.errors import ScenarioError
from tests.imports.lines import at, line
from tests.imports.reading import read, values_of
from tests.imports.test_degrees import FOUNDRY
from tests.imports.test_olmo import SEVEN

AXOLOTL = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 1\nbf16: true\n"
FACTORY = (
    "model_name_or_path: meta-llama/Llama-3.1-8B\ncutoff_len: 2048\nstage: sft\nbf16: true\nfinetuning_type: full\n"
)
NEWER = "model: Qwen/Qwen3-8B\ncutoff_len: 2048\nmicro_batch_size: 1\n%sdist_config: {name: fsdp2%s}\n"
TRAINER = "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 1\nbf16: true\n"
SWIFT = "model: Qwen/Qwen3-8B\ntuner_type: full\nmax_length: 2048\n"
OUMI = "model: {model_name: meta-llama/Llama-3.1-8B%s}\ntraining: {trainer_type: TRL_SFT%s}\n"
LITGPT = "checkpoint_dir: c/meta-llama/Llama-2-7b-hf\nprecision: bf16-true\n%strain: {micro_batch_size: 1, max_seq_length: 512}\n"
HUB = "{name: hf_causal_lm, pretrained_model_name_or_path: a/b%s}"
ADAPTED = TRAINER + "lora_r: 8\nlora_target_modules: [q_proj]\n"
GALORE = "optimizer: {class_path: galore_torch.GaLoreAdamW, init_args: {rank: 8}}\n"
DOCUMENTS = SEVEN.replace("data: {paths", "data: {generate_doc_lengths: true, paths")
CHECKPOINTED = TRAINER + "gradient_checkpointing: true\ngradient_checkpointing_kwargs: {%s}\n"
PACKED = "attention over packed sequences is simulated as over one whole"


def of_the_hub(more: str) -> str:
    return FOUNDRY.replace(FOUNDRY[FOUNDRY.index("{name: mpt") : FOUNDRY.index("\noptimizer")], HUB % more)


SAID = {
    "experts of Megatron": (
        FACTORY + "tensor_model_parallel_size: 2\nmoe_token_dispatcher_type: flex\n",
        "moe_token_dispatcher_type: flex is simulated as alltoall"),
    "experts of Megatron one by one": (
        FACTORY + "tensor_model_parallel_size: 2\nmoe_grouped_gemm: false\n", "moe_grouped_gemm: false: experts one"),
    "scores of LitGPT": (
        "model_config: {n_layer: 2, n_embd: 64, n_head: 4, padded_vocab_size: 100, attention_logit_softcapping: 50.0}\n"
        "out_dir: o\ntrain: {micro_batch_size: 1}\n", "attention_logit_softcapping: LitGPT keeps all scores"),
    "gathers in fp8": (
        FACTORY + "fp8: true\nfp8_enable_fsdp_float8_all_gather: true\n",
        "fp8_enable_fsdp_float8_all_gather: weights are gathered as they are stored"),
    "packed in Megatron Bridge": (FACTORY + "use_packed_sequences: true\n", f"use_packed_sequences: {PACKED}"),
    "another exchange of tokens": (
        NEWER % ("", ", ep_size: 2, ep_dispatcher: deepep"), "dist_config.ep_dispatcher: tokens are exchanged by NCCL"),
    "all logits in fp32": (FACTORY + "upcast_lmhead_output: true\n", "upcast_lmhead_output: the copy of all logits"),
    "norms in fp32": (FACTORY + "upcast_layernorm: true\n", "upcast_layernorm: norms have weights in fp32"),
    "a tower that is trained": (FACTORY + "freeze_vision_tower: false\n", "freeze_vision_tower: false trains that part"),
    "another loss": (FACTORY + "use_dft_loss: true\n", "use_dft_loss: its loss is priced as cross-entropy"),
    "kernels by name": (NEWER % ("kernel_config: {name: liger_kernel}\n", ""), "Liger kernels are simulated as"),
    "other kernels by name": (NEWER % ("kernel_config: {name: flash-linear-attention}\n", ""), "as the preset's"),
    "micro-batches by tokens": (NEWER % ("batching_strategy: dynamic_batching\n", ""), "batching_strategy: micro-batches"),
    "4-bit weights, newer form": (
        NEWER % ("quant_config: {name: bnb, quantization_bit: 4}\n", ""), "the 4-bit weights are simulated in 16 bits"),
    "packed in Axolotl": (AXOLOTL + "sample_packing: true\n", f"sample_packing: {PACKED}"),
    "packed in ms-swift": (SWIFT + "packing: true\n", f"packing: {PACKED}"),
    "packed in a script": (TRAINER + "packing: true\n", f"packing: {PACKED}"),
    "packed in TRL": (TRAINER + "packing: true\npacking_strategy: bfd\n", f"packing: {PACKED}"),
    "fused norm of Axolotl": (AXOLOTL + "flash_attn_rms_norm: true\n", "flash_attn_rms_norm: its kernel is simulated as"),
    "kernels of experts": (AXOLOTL + "experts_implementation: scattermoe\n", "experts_implementation: kernels of experts"),
    "weights on the CPU": (AXOLOTL + "gpu_memory_limit: 20GiB\n", "gpu_memory_limit: all weights stay on the GPU here"),
    "weights of GPTQ": (AXOLOTL + "gptq: true\n", "the 4-bit weights are simulated in 16 bits"),
    "a teacher": (AXOLOTL + "plugins: [axolotl.integrations.kd.KDPlugin]\n", "plugins: KDPlugin: the teacher"),
    "layers over GPUs": (TRAINER + "model_init_kwargs: {device_map: auto}\n", "device_map: auto spreads layers over all"),
    "activations of TRL": (TRAINER + "activation_offloading: true\n", "activation_offloading: activations stay on the GPU"),
    "losses of TRL in chunks": (TRAINER + "loss_type: chunked_nll\n", "loss_type: chunked_nll never holds all logits"),
    "activations on the host": (CHECKPOINTED % "offload: true", "gradient_checkpointing_kwargs.offload: activations stay"),
    "every n-th of some": (
        CHECKPOINTED.replace("meta-llama/Llama-3.1-8B", "a/b") % "every_n_layers: 2",
        "every_n_layers: 2: here all blocks are recomputed: --set training.recompute_layers=..."),
    "CUDA graphs": (TRAINER + "torch_compile_mode: reduce-overhead\n", "torch_compile_mode: reduce-overhead: its CUDA graphs"),
    "another compiler": (TRAINER + "torch_compile_backend: tensorrt\n", "torch_compile_backend: tensorrt is simulated as ind"),
    "layer by layer": (TRAINER + "optim: galore_adamw_layerwise\n", "it frees each layer's gradients in backward"),
    "moments in bf16": (
        TRAINER + "optim: adamw_anyprecision\noptim_args: momentum_dtype=bfloat16\n",
        "optim_args: momentum_dtype=bfloat16: here the optimizer keeps two fp32 moments"),
    "no momentum": (TRAINER + "optim: sgd\n", "optim: sgd keeps nothing there without momentum"),
    "apex": (TRAINER + "half_precision_backend: apex\nfp16_opt_level: O2\n", "half_precision_backend: apex at O2 is simulated"),
    "hooks": (TRAINER + "debug: underflow_overflow\n", "debug: the hooks that look at every activation"),
    "dropout of the model": (TRAINER + "config_overrides: resid_pdrop=0.2\n", "config_overrides.resid_pdrop: rates of"),
    "weights of AWQ": (
        TRAINER + "model_init_kwargs: {quantization_config: {quant_method: awq, bits: 4}}\n",
        "the 4-bit weights are simulated in 16 bits"),
    "a head of labels": (SWIFT + "task_type: seq_cls\nnum_labels: 2\n", "task_type: seq_cls trains a head"),
    "kernels of unsloth": (SWIFT + "tuner_backend: unsloth\n", "tuner_backend: the kernels of unsloth are not simulated"),
    "activations of ms-swift": (SWIFT + "callbacks: [activation_cpu_offload]\n", "callbacks: activation_cpu_offload: activ"),
    "experts one by one": (SWIFT + "experts_impl: eager\n", "experts_impl: eager: experts one after the other"),
    "bits of Oumi": (
        OUMI % ("", ", use_peft: true") + "peft: {q_lora: true, q_lora_bits: 8, lora_target_modules: [q_proj]}\n",
        "the 8-bit weights are simulated in 16 bits"),
    "kernels that Oumi hands on": (
        OUMI % ("", ", trainer_kwargs: {activation_offloading: true}"), "activation_offloading: activations stay on"),
    "some layers of Oumi": (
        OUMI % ("", ", enable_gradient_checkpointing: true, gradient_checkpointing_kwargs: {every_n_layers: 2}"),
        "gradient_checkpointing_kwargs.every_n_layers: 2: here all blocks are recomputed"),
    "cache of Oumi": (OUMI % ("", ", empty_device_cache_steps: 1"), "empty_device_cache_steps: emptying the cache"),
    "metrics of llm-foundry": (of_the_hub(""), "model.use_train_metrics: the cross-entropies that are computed"),
    "algorithms of Composer": (FOUNDRY + "algorithms: {sam: {rho: 0.05}}\n", "algorithms.sam: the second forward"),
    "length of the data": (
        FOUNDRY + "train_loader: {dataset: {max_seq_len: 1024}}\n", "sequences of 1024 tokens, whatever max_seq_len"),
    "hybrid that is none": (
        FOUNDRY + "fsdp_config: {sharding_strategy: HYBRID_SHARD}\n", "fsdp_config.sharding_strategy: without a data_par"),
    "some layers": (ADAPTED + "layers_to_transform: [0, 1]\nlayers_pattern: layers\n", "layers_to_transform: all layers"),
    "several ranks": (ADAPTED + "rank_pattern: {q_proj: 4}\n", "rank_pattern: all adapters have one rank here"),
    "weights of experts": (ADAPTED + "target_parameters: [mlp.experts]\n", "target_parameters: adapters on the weights"),
    "kernels of the hub": (TRAINER + "use_kernels: true\n", "use_kernels: kernels of the hub are simulated as"),
    "kernels of the hub, beneath": (
        TRAINER + "model_init_kwargs: {use_kernels: true}\n", "model_init_kwargs.use_kernels: kernels of the hub are"),
    "projections of LitGPT": (LITGPT % GALORE, "optimizer.class_path GaLoreAdamW: its projections are not"),
    "BAdam": (FACTORY + "use_badam: true\n", "use_badam keeps weights as they are published: bf16 is simulated"),
    "loss of OLMo": (SEVEN + "softmax_auxiliary_loss: true\n", "softmax_auxiliary_loss: the second pass over the logits"),
    "documents of OLMo": (DOCUMENTS, "generate_doc_lengths: attention within documents"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told"), SAID.values(), ids=SAID)
def test_it_is_said(text: str, told: str, tmp_path: Path) -> None:
    reading = read(tmp_path, text, ".yaml")
    assert any(told in note for note in reading.notes)
    assert reading.unknown == ()
    name = told.partition(":")[0].partition(" ")[0]
    assert name not in reading.idle


REFUSED = {
    "images alone": (FACTORY + "freeze_language_model: true\n", "freeze_language_model = true: trains what turns images"),
    "the projector alone": (FACTORY + "train_mm_proj_only: true\n", "train_mm_proj_only = true: trains what turns images"),
    "embeddings": (SWIFT + "task_type: embedding\n", "task_type = embedding: is not simulated"),
    "picked layers": (
        AXOLOTL + "plugins: [axolotl.integrations.spectrum.SpectrumPlugin]\n", "SpectrumPlugin trains the layers that it"),
    "two models": (TRAINER + "use_peft: false\nloss_type: sigmoid\n", "loss_type = sigmoid: is of a trainer whose step"),
    "a batch for all": (TRAINER + "accelerator_config: {split_batches: true}\n", "shares per_device_train_batch_size out"),
    "steps twice": (
        TRAINER + "gradient_accumulation_steps: 2\n"
        "accelerator_config: {gradient_accumulation_kwargs: {num_steps: 4}}\n", "`num_steps` is set but"),
    "no NCCL": (TRAINER + "ddp_backend: gloo\n", "ddp_backend = gloo: reduces gradients without NCCL"),
    "Apple": (TRAINER + "use_mps_device: true\n", "use_mps_device = true: asks for a run without NVIDIA GPUs"),
    "another width": (
        "model_type: gpt2\nper_device_train_batch_size: 1\nconfig_overrides: n_embd=1024,n_layer=24\n",
        "config_overrides.n_layer = 24: changes the model's dimensions"),
    "frozen in Oumi": (OUMI % (", freeze_layers: [visual]", ""), "model.freeze_layers"),
    "bits over GPUs": (LITGPT % "devices: 2\nlora_r: 8\nquantize: bnb.nf4\n", "Quantization is currently not supported"),
    "an object": (
        TRAINER + "parallelism_config: {tp_size: 2}\n", "parallelism_config: has to be an object of Accelerate's"),
    "layers between": (
        FACTORY.replace("full", "freeze") + "use_llama_pro: true\nfreeze_trainable_layers: 8\n",
        "fix: set it to false: the last freeze_trainable_layers are trained then"),
    "adapters between": (FACTORY.replace("full", "lora") + "use_llama_pro: true\n", "allowed: false; fix: set it to false"),
    "Megatron's": (SWIFT.replace("model: Q", "model_type: Q") + "train_iters: 9\n", "fix: start it with megatron sft"),
    "another ring": (NEWER % ("", ", cp_size: 2, cp_mode: ring"), "dist_config.cp_mode = ring: is not simulated"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, text, ".yaml")
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


USED: dict[str, tuple[str, dict[str, Any]]] = {
    "kernels of PyTorch": (TRAINER + "torch_compile_backend: aot_eager\n", {"software": None}),
    "inductor": (TRAINER + "torch_compile_backend: inductor\n", {"software": "compile"}),
    "a mode alone in Axolotl": (AXOLOTL + "torch_compile_mode: max-autotune\n", {"software": None}),
    "every third": (
        CHECKPOINTED % "every_n_layers: 3", {"training.recompute": "full", "training.recompute_layers": 11}),
    "every second, in JSON": (
        TRAINER + "activation_checkpointing: true\nactivation_checkpointing_kwargs: '{\"every_n_layers\": 2}'\n",
        {"training.recompute_layers": 16}),
    "steps of Accelerate": (
        TRAINER + "accelerator_config: {even_batches: true, gradient_accumulation_kwargs: {num_steps: 4}}\n",
        {"training.gradient_accumulation": 4}),
    "fused loss of Axolotl": (
        AXOLOTL + "unsloth_cross_entropy_loss: true\n", {"software": {"cross_entropy": "fused"}}),
    "Liger's loss with the head": (
        AXOLOTL + "liger_fused_linear_cross_entropy: true\n", {"software": {"cross_entropy": "fused_linear"}}),
    "Liger in Trainer": (
        TRAINER + "use_liger_kernel: true\ntorch_compile: true\n",
        {"software": {"preset": "compile", "cross_entropy": "fused_linear"}}),
    "Liger with a loss of its own": (
        TRAINER + "use_liger_kernel: true\n"
        "liger_kernel_config: {fused_linear_cross_entropy: false, cross_entropy: true}\n",
        {"software": {"cross_entropy": "fused"}}),
    "Liger without a loss": (
        TRAINER + "use_liger_kernel: true\nliger_kernel_config: {fused_linear_cross_entropy: false}\n",
        {"software": {}}),
    "Liger in Oumi": (
        OUMI % (", enable_liger_kernel: true", ""), {"software": {"preset": "flash", "cross_entropy": "fused_linear"}}),
    "Liger's loss": (
        AXOLOTL + "liger_cross_entropy: true\neager_attention: true\noptimizer: adamw_torch\n",
        {"software": {"preset": "eager", "optimizer": "foreach", "cross_entropy": "fused"}}),
    "no kernel for attention": (AXOLOTL + "eager_attention: true\n", {"software": "eager"}),
    "laid end to end": (AXOLOTL + "max_packed_sequence_len: 8192\n", {"training.sequence_length": 8192}),
    "layers of Megatron together": (
        FACTORY + "tensor_model_parallel_size: 2\nrecompute_granularity: full\nrecompute_method: uniform\n"
        "recompute_num_layers: 1\n", {"training.recompute": "full", "training.recompute_layers": None}),
    "layers of Megatron": (
        FACTORY + "tensor_model_parallel_size: 2\nrecompute_granularity: full\nrecompute_method: block\n"
        "recompute_num_layers: 3\n", {"training.recompute": "full", "training.recompute_layers": 3}),
    "kernels of Megatron": (
        FACTORY + "tensor_model_parallel_size: 2\napply_rope_fusion: false\n",
        {"software": {"preset": "te", "unfused": ["rope"]}}),
    "fp8 of Megatron Bridge": (
        FACTORY + "tensor_model_parallel_size: 2\nmixed_precision: bf16_with_fp8_current_scaling_mixed\n",
        {"training.precision": "fp8"}),
    "length of Oumi's data": (
        OUMI % (", model_max_length: 2048", "")
        + "data: {train: {datasets: [{dataset_name: a, dataset_kwargs: {seq_length: 8192}}]}}\n",
        {"training.sequence_length": 8192}),
    "length of Axolotl": (AXOLOTL.replace("sequence_len: 2048\n", ""), {"training.sequence_length": 512}),
    "length of LitGPT's models": (
        "model_config: {n_layer: 2, n_embd: 64, n_head: 4, padded_vocab_size: 100, block_size: 8192}\n"
        "out_dir: o\ntrain: {micro_batch_size: 1}\n", {"training.sequence_length": 8192}),
    "packs of ms-swift": (SWIFT + "packing: true\npacking_length: 8192\n", {"training.sequence_length": 8192}),
    "gradients of FSDP 2": (NEWER % ("", ""), {"training.reduce_dtype": "fp32"}),
    "options of FSDP 2": (
        NEWER % ("", ", reshard_after_forward: false, offload_params: true"),
        {"fsdp.reshard_after_forward": False, "fsdp.cpu_offload": True}),
    "heads shared out": (NEWER % ("", ", cp_size: 2"), {"parallel.cp": 2, "parallel.cp_comm_type": "a2a"}),
    "optimizer of the newer form": (NEWER % ("optim_config: {name: muon}\n", ""), {"training.optimizer": "sgd"}),
    "attention of the hub": (of_the_hub(""), {"software": {"preset": "eager", "optimizer": "for_loop"}}),
    "FlashAttention of the hub": (
        of_the_hub(", use_flash_attention_2: true").replace("decoupled_adamw", "adamw"),
        {"software": {"preset": "flash", "optimizer": "foreach"}}),
    "Lion in fp32": (
        FOUNDRY.replace("{name: decoupled_adamw}", "{name: decoupled_lionw_8b, quantize: false}"),
        {"training.optimizer": "sgd"}),
    "loss of PyTorch": (
        FOUNDRY.replace("vocab_size: 100", "vocab_size: 100, loss_fn: torch_crossentropy, attn_config: {attn_impl: torch}"),
        {"software": {"preset": "eager", "optimizer": "for_loop", "cross_entropy": "chain"}}),
    "update of llm-foundry": (FOUNDRY, {"software": {"preset": "flash", "optimizer": "for_loop"}}),
    "update of composer-2023": (
        FOUNDRY.replace("vocab_size: 100", "vocab_size: 100, attn_config: {attn_impl: triton}"),
        {"software": "composer-2023"}),
    "loss of FlashAttention": (
        SEVEN + "fused_loss: true\ncompile: {backend: aot_eager}\n",
        {"software": {"preset": "flash", "optimizer": "foreach", "cross_entropy": "fused"}}),
    "weights that OLMo spares": (
        SEVEN.replace("{name: adamw", "{name: adamw, selective_updates: true"),
        {"software": {"preset": "flash", "optimizer": "for_loop", "cross_entropy": "chain"}}),
    "options in JSON": (
        TRAINER + "model_init_kwargs: '{\"attn_implementation\": \"eager\"}'\nfsdp: full_shard auto_wrap\n"
        "fsdp_config: '{\"fsdp_version\": 2}'\n", {"software": "eager", "parallel.data_parallel": "fsdp"}),
    "hybrid without copies": (
        FOUNDRY + "fsdp_config: {sharding_strategy: HYBRID_SHARD, data_parallel_shard_degree: 8}\n",
        {"parallel.data_parallel": "fsdp1", "fsdp.shard_size": None, "parallel.dp": 8}),
    "copies of what is sharded": (
        FOUNDRY + "fsdp_config: {sharding_strategy: SHARD_GRAD_OP, data_parallel_replicate_degree: 2}\n",
        {"parallel.data_parallel": "hsdp", "fsdp.reshard_after_forward": False}),
    "hybrid in PyTorch's words": (
        FOUNDRY + "fsdp_config: {sharding_strategy: _HYBRID_SHARD_ZERO2, data_parallel_replicate_degree: 2}\n",
        {"parallel.data_parallel": "hsdp", "fsdp.reshard_after_forward": False}),
    "trained whole": (
        ADAPTED + "modules_to_save: [lm_head]\n",
        {"training.lora": {"rank": 8, "targets": ["q_proj"], "modules_to_save": ["lm_head"]}}),
    "update of GaLore": (TRAINER + "optim: galore_adamw\n", {"software": {"preset": "flash", "optimizer": "for_loop"}}),
    "update of GaLore in LitGPT": (LITGPT % GALORE, {"software": {"preset": "flash", "optimizer": "for_loop"}}),
    "positions of LitGPT": (
        "model: {n_layer: 2, n_embd: 64, n_head: 4, padded_vocab_size: 100, block_size: 4096}\n"
        "out_dir: o\ntrain: {micro_batch_size: 1, max_seq_length: }\n", {"training.sequence_length": 4096}),
    "one copy over all": (
        FOUNDRY + "fsdp_config: {sharding_strategy: HYBRID_SHARD, data_parallel_replicate_degree: 1}\n",
        {"parallel.data_parallel": "fsdp1"}),
    "fp16 beside tf32": (TRAINER.replace("bf16", "fp16") + "tf32: true\n", {"training.precision": "fp16"}),
    "kernels of LitGPT": (LITGPT % "", {"software": {"preset": "flash", "optimizer": "foreach"}}),
    "kernels that LitGPT is told": (
        LITGPT % "optimizer: {class_path: torch.optim.AdamW, init_args: {fused: true}}\n",
        {"software": {"preset": "flash", "optimizer": "fused"}}),
    "adapters of LitGPT": (LITGPT % "devices: 2\nlora_r: 8\n", {"parallel.data_parallel": "fsdp"}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "values"), USED.values(), ids=USED)
def test_it_is_used(text: str, values: dict[str, Any], tmp_path: Path) -> None:
    reading = read(tmp_path, text, ".yaml")
    assert values_of(reading, values) == values
    assert reading.unknown == ()


def test_metrics_that_nobody_computes_are_not_said(tmp_path: Path) -> None:
    off, old = (of_the_hub(", use_train_metrics: false"), FOUNDRY.replace("vocab_size: 100", "vocab_size: 100, %s"))
    old %= "attn_config: {attn_impl: triton}"
    for text in (off, old):
        assert [note for note in read(tmp_path, text, ".yaml").notes if "metrics" in note] == []


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (AXOLOTL + "use_ray: true\nray_num_workers: 4\n", 4),
        (AXOLOTL + "ray_num_workers: 4\n", None),
        (FACTORY + "ray_num_workers: 4\n", 4),
        (SWIFT + "ENV: {NPROC_PER_NODE: 4, NNODES: 2}\n", 8),
    ],
)
def test_processes_are_gpus(text: str, gpus: int | None, tmp_path: Path) -> None:
    assert read(tmp_path, text, ".yaml").gpus == gpus


@pytest.mark.parametrize(
    "text",
    [
        AXOLOTL + "sample_packing: false\nmax_memory:\nunsloth_cross_entropy_loss: false\n",
        FACTORY + "packing: true\nupcast_layernorm: false\nfreeze_vision_tower: true\nuse_v1_kernels: false\n",
        TRAINER + "packing: true\npacking_strategy: wrapped\nloss_type: dft\n",
        TRAINER + "config_overrides: use_cache=False\nddp_backend: nccl\ndebug: ''\n",
        CHECKPOINTED % "use_reentrant: false, every_n_layers: 1",
        SWIFT
        + "torch_dtype: bfloat16\npacking: false\ntask_type: causal_lm\nfreeze_vit: true\ncallbacks: [early_stop]\n",
    ],
)
def test_nothing_is_said_where_nothing_changes(text: str, tmp_path: Path) -> None:
    reading = read(tmp_path, text, ".yaml")
    words = ("here", "simulated", PACKED)
    assert [note for note in reading.notes if note.endswith(words) and "TRL" not in note] == []
    assert reading.unknown == ()


def test_no_limit_is_not_a_default_length(tmp_path: Path) -> None:
    text = TRAINER + "use_peft: false\nmax_length: %s\n"
    assert read(tmp_path, text % "null", ".yaml").settings.get("training.sequence_length") is None
    assert read(tmp_path, text % "512", ".yaml").settings["training.sequence_length"] == 512


def test_options_of_deepspeed_on_a_line(tmp_path: Path) -> None:
    options = json.dumps({"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}})
    words = "--model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2 --bf16 --block_size 512"
    run = line(tmp_path, f"torchrun --nproc_per_node 8 train.py {words} --deepspeed '{options}'")
    assert at(run, "parallel.data_parallel", "training.micro_batch_size") == ["zero3", 2]
    assert run.unknown == ()


def test_json_that_is_none_is_not_understood(tmp_path: Path) -> None:
    assert read(tmp_path, TRAINER + "accelerator_config: '{split'\n", ".yaml").unknown == ("accelerator_config",)


def test_options_of_what_is_off_mean_nothing(tmp_path: Path) -> None:
    text = (CHECKPOINTED % "every_n_layers: 2").replace("checkpointing: true", "checkpointing: false")
    assert read(tmp_path, text, ".yaml").idle == ("gradient_checkpointing_kwargs.every_n_layers",)


def test_liger_keeps_the_logits_of_a_split_vocabulary(tmp_path: Path) -> None:
    liger = AXOLOTL + "liger_fused_linear_cross_entropy: true\noptimizer: adamw_torch\n"
    for more, loss in (("", "fused_linear"), ("tensor_parallel_size: 2\ndp_shard_size: 4\n", "fused")):
        run = line(tmp_path, "axolotl train a.yaml", {"a.yaml": liger + more})
        assert at(run, "software.cross_entropy") == [loss]
        assert any("takes no split vocabulary" in note for note in run.notes) == bool(more)
