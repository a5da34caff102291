"""Megatron's arguments that change neither time nor memory of a step, by name.

NVIDIA/Megatron-LM megatron/training/arguments.py of 2020 to 2025.
"""

from __future__ import annotations

from typing import Final

from simgpu.io.foreign.megatron_idle_beside import BESIDE

IDLE: Final = (
    # data and tokenizer
    "data-path", "train-data-path", "valid-data-path", "test-data-path", "data-args-path",
    "per-split-data-args-path", "data-cache-path", "data-impl", "split", "vocab-file", "merge-file",
    "vocab-extra-ids", "tokenizer-type", "tokenizer-model", "tokenizer-metadata", "tokenizer-name-or-path",
    "tokenizer-special-tokens", "tokenizer-mode", "tokenizer-hf-use-fast", "tokenizer-hf-include-special-tokens",
    "tokenizer-sentencepiece-legacy", "tokenizer-prompt-format", "tiktoken-pattern", "tiktoken-num-special-tokens",
    "tiktoken-special-tokens", "legacy-tokenizer", "trust-remote-code", "num-workers", "mock-data",
    "no-mmap-bin-files", "no-create-attention-mask-in-dataloader", "dataloader-type", "dataloader-save",
    "dataloader-prefetch-factor", "reset-position-ids", "reset-attention-mask", "eod-mask-loss",
    "num-dataset-builder-threads", "object-storage-cache-path", "s3-cache-path", "mid-level-dataset-surplus",
    "allow-ambiguous-pad-tokens", "full-validation", "multiple-validation-sets", "sample-rate", "mask-prob",
    "short-seq-prob", "mmap-warmup", "retriever-seq-length", "decoder-seq-length", "sft",
    "sft-tokenizer-prompt-format", "disable-msc",
    # length of training, learning rate, regularisation
    "train-iters", "train-samples", "train-tokens", "exit-interval", "exit-duration-in-mins", "exit-signal-handler",
    "exit-on-missing-checkpoint", "iterations-to-skip", "result-rejected-tracker-filename",
    "decrease-batch-size-if-needed", "lr", "lr-decay-style", "lr-decay-iters", "lr-decay-samples",
    "lr-decay-tokens", "lr-warmup-fraction", "lr-warmup-iters", "lr-warmup-samples", "lr-warmup-tokens",
    "lr-warmup-init", "lr-wsd-decay-style", "lr-wsd-decay-iters", "lr-wsd-decay-samples", "min-lr", "decoupled-lr",
    "decoupled-min-lr", "warmup", "weight-decay", "weight-decay-incr-style", "start-weight-decay",
    "end-weight-decay", "clip-grad", "adam-beta1", "adam-beta2", "adam-eps", "sgd-momentum", "seed",
    "data-parallel-random-init", "init-method-std", "init-method-xavier-uniform", "embedding-init-method-std",
    "override-opt_param-scheduler", "override-opt-param-scheduler", "override-lr-scheduler",
    "use-checkpoint-opt_param-scheduler", "use-checkpoint-opt-param-scheduler", "use-checkpoint-lr-scheduler",
    "use-checkpoint-args", "use-mp-args-from-checkpoint-args", "no-use-tokenizer-model-from-checkpoint-args",
    "loss-scale", "initial-loss-scale", "min-loss-scale", "loss-scale-window", "hysteresis",
    # checkpoints
    "save", "save-interval", "persistent-save-interval", "save-retain-interval", "save-dgrads-interval",
    "save-wgrads-interval", "load", "no-load-optim", "no-load-rng", "no-save-optim", "no-save-rng",
    "load-main-params-from-ckpt", "no-strict-fsdp-dtensor-load", "finetune", "pretrained-checkpoint", "ckpt-step",
    "ckpt-format", "ckpt-convert-format", "ckpt-convert-save", "ckpt-convert-update-legacy-dist-opt-format",
    "ckpt-fully-parallel-save", "no-ckpt-fully-parallel-save", "ckpt-fully-parallel-load",
    "ckpt-fully-parallel-load-exchange-algo", "ckpt-assume-constant-structure", "dist-ckpt-format",
    "dist-ckpt-strictness", "dist-ckpt-save-pre-mcore-014", "dist-ckpt-optim-fully-reshardable",
    "distrib-optim-fully-reshardable-mem-efficient", "async-save", "async-ckpt-use-cpu-shm", "use-dist-ckpt",
    "use-persistent-ckpt-worker", "auto-detect-ckpt-format", "non-persistent-save-interval",
    "non-persistent-ckpt-type", "non-persistent-global-ckpt-dir", "non-persistent-local-ckpt-dir",
    "non-persistent-local-ckpt-algo", "replication", "replication-jump", "replication-factor", "no-initialization",
    "adlr-autoresume", "adlr-autoresume-interval",
    # logs, evaluation, profilers
    "log-interval", "log-params-norm", "log-num-zeros-in-grad", "log-throughput", "log-progress", "log-energy",
    "log-straggler", "log-timers-to-tensorboard", "log-loss-scale-to-tensorboard",
    "no-log-loss-scale-to-tensorboard", "log-learning-rate-to-tensorboard", "no-log-learnig-rate-to-tensorboard",
    "log-batch-size-to-tensorboard", "log-validation-ppl-to-tensorboard", "log-memory-to-tensorboard",
    "log-memory-interval", "log-world-size-to-tensorboard", "log-device-memory-used", "log-max-attention-logit",
    "log-optimizer-states-to-tensorboard", "timing-log-level", "timing-log-option",
    "no-barrier-with-level-1-timing", "tensorboard-dir", "tensorboard-log-interval", "tensorboard-queue-size",
    "wandb-project", "wandb-entity", "wandb-exp-name", "wandb-save-dir", "logging-level", "eval-iters",
    "eval-interval", "skip-train", "test-mode", "no-one-logger", "enable-one-logger", "one-logger-project",
    "one-logger-run-name", "one-logger-async", "app-tag-run-name", "app-tag-run-version", "config-logger-dir",
    "check-for-spiky-loss", "check-for-large-grads", "no-check-for-nan-in-loss-and-grad",
    "check-weight-hash-across-dp-replicas-interval", "error-injection-rate", "error-injection-type", "rerun-mode",
    "run-workload-inspector-server", "disable-straggler-on-startup", "straggler-ctrlr-port",
    "straggler-minmax-count", "profile", "profile-step-start", "profile-step-end", "profile-ranks",
    "use-pytorch-profiler", "pytorch-profiler-collect-shapes", "pytorch-profiler-collect-callstack",
    "pytorch-profiler-collect-chakra", "nvtx-ranges", "record-memory-history", "memory-snapshot-path",
    # numerics that cost no time here
    "attention-softmax-in-fp32", "apply-query-key-layer-scaling", "no-query-key-layer-scaling", "norm-epsilon",
    "layernorm-epsilon", "apply-layernorm-1p", "apply-residual-connection-post-layernorm", "rotary-base",
    "rotary-percent", "rotary-interleaved", "rotary-seq-len-interpolation-factor", "rotary-scaling-factor",
    "rope-scaling-factor", "use-rope-scaling", "rope-type", "mrope-section", "mscale", "mscale-all-dim",
    "no-position-embedding", "relative-attention-num-buckets", "relative-attention-max-distance",
    "mtp-loss-scaling-factor", "qk-clip", "qk-clip-alpha", "qk-clip-threshold", "fp8-amax-compute-algo",
    "fp8-amax-history-len", "fp8-margin", "fp8-interval", "num-layers-at-start-in-bf16",
    "num-layers-at-end-in-bf16", "disable-bf16-reduced-precision-matmul", "calculate-per-token-loss",
    # experts: how tokens are told apart, and kernels of the generation
    "moe-aux-loss-coeff", "moe-z-loss-coeff", "moe-input-jitter-eps", "moe-per-layer-logging",
    "moe-router-load-balancing-type", "moe-router-dtype", "moe-router-fusion", "moe-router-score-function",
    "moe-router-topk", "moe-router-pre-softmax", "moe-router-num-groups", "moe-router-group-topk",
    "moe-router-topk-scaling-factor", "moe-router-topk-limited-devices", "moe-router-enable-expert-bias",
    "moe-router-bias-update-rate", "moe-router-force-load-balancing", "moe-router-padding-for-fp8",
    "moe-router-padding-for-quantization", "moe-permute-fusion", "moe-grouped-gemm", "moe-use-legacy-grouped-gemm",
    "moe-token-dispatcher-type", "moe-flex-dispatcher-backend", "moe-enable-deepep", "moe-deepep-num-sms",
    "moe-hybridep-num-sms", "moe-token-drop-policy", "moe-pad-expert-input-to-capacity", "moe-apply-probs-on-input",
    "moe-use-upcycling", "moe-upcycling-granularity", "moe-extended-tp",
    # fusions and kernels that the generation has or lacks
    "no-bias-gelu-fusion", "no-bias-swiglu-fusion", "no-bias-dropout-fusion", "no-masked-softmax-fusion",
    "no-gradient-accumulation-fusion", "no-persist-layer-norm", "no-rope-fusion", "use-te-activation-func",
    "use-fused-weighted-squared-relu", "no-async-tensor-model-parallel-allreduce",
    "no-clone-scatter-output-in-embedding", "clone-scatter-output-in-embedding",
    # processes and buffers
    "distributed-backend", "distributed-timeout-minutes", "distributed-timeout-seconds-after-init", "local-rank",
    "lazy-mpu-init", "disable-gloo-process-groups", "pipeline-model-parallel-comm-backend", "use-ring-exchange-p2p",
    "high-priority-stream-groups", "nccl-communicator-config-path", "sharp-enabled-group",
    "disable-symmetric-registration", "manual-gc", "manual-gc-interval", "no-manual-gc-eval",
    "empty-unused-memory-level", "train-sync-interval", "use-cpu-initialization", "init-model-with-meta-device",
    "te-rng-tracker", "inference-rng-tracker", "enable-ft-package", "calc-ft-timeouts",
    "ddp-pad-buckets-for-high-nccl-busbw", "no-gradient-reduce-div-fusion", "no-align-grad-reduce",
    "no-align-param-gather", "overlap-param-gather-with-optimizer-step", "fsdp-double-buffer",
    "fsdp-manual-registration", "enable-experimental", "spec", "use-legacy-models", "use-mcore-models", "use-te",
    "cuda-graph-warmup-steps", "tp-comm-overlap-cfg", "tp-comm-bootstrap-backend", "wgrad-deferral-limit",
    "optimizer-offload-fraction", "use-torch-optimizer-for-cpu-offload", "overlap-cpu-optimizer-d2h-h2d",
    "no-pin-cpu-grads", "no-pin-cpu-params", "dump-param-to-param-group-map", "cpu-offloading-num-layers",
    "offload-modules", "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype",
    "accumulate-allreduce-grads-in-fp32", "recompute-method",
    # restarts in the process
    "inprocess-restart", "inprocess-max-iterations", "inprocess-monitor-thread-interval",
    "inprocess-monitor-process-interval", "inprocess-progress-watchdog-interval", "inprocess-heartbeat-interval",
    "inprocess-soft-timeout", "inprocess-hard-timeout", "inprocess-heartbeat-timeout", "inprocess-barrier-timeout",
    "inprocess-completion-timeout", "inprocess-last-call-wait", "inprocess-termination-grace-time",
    "inprocess-granularity", "inprocess-active-world-size", "inprocess-empty-cuda-cache",
    # inference, retrieval and BERT, where nothing of them is trained
    "inference-batch-times-seqlen-threshold", "inference-max-requests", "inference-max-batch-size",
    "inference-max-seq-length", "inference-dynamic-batching", "max-tokens-to-oom", "output-bert-embeddings",
    "bert-embedder-type", "flash-decode", "bert-no-binary-head", "bert-load", "retro-project-dir",
    "retro-cyclic-train-iters", "retro-encoder-layers", "retro-encoder-hidden-dropout",
    "retro-encoder-attention-dropout", "retro-num-neighbors", "retro-num-retrieved-chunks", "retro-attention-gate",
    "retro-no-verify-neighbor-count",
    # sizes, where another argument leaves them without effect
    "context-parallel-size", "vocab-size", "make-vocab-size-divisible-by", "extra-vocab-size", "pad-vocab-size-to",
    "padded-vocab-size", "max-position-embeddings", "num-query-groups", "group-query-attention",
    "expert-tensor-parallel-size",
    *BESIDE,
)  # fmt: skip
"""Names without leading dashes; those that a reader has used count as used."""
