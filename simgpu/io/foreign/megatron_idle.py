"""Megatron's arguments that change neither time nor memory of a step."""

from __future__ import annotations

from typing import Final

IDLE: Final = (
    # data and tokenizer
    "data-path", "train-data-path", "valid-data-path", "test-data-path", "data-impl", "data-cache-path",
    "data-args-path",
    "split", "dataset", "vocab-file", "merge-file", "tokenizer-*", "patch-tokenizer-type", "tiktoken-pattern",
    "num-workers", "repeated-dataloader",
    "mock-data", "no-mmap-bin-files", "no-create-attention-mask-in-dataloader", "dataloader-*", "reset-position-ids",
    "reset-attention-mask", "eod-mask-loss", "max-padding-length", "prompt-path", "dataset-ratios-path",
    "output-meg-ds-ratio-file", "object-storage-cache-path", "full-validation", "dataset-config", "template",
    # length of training, learning rate, regularisation
    "train-iters", "train-samples", "train-tokens", "train-mode", "exit-*", "lr", "lr-*", "min-lr", "decoupled-*",
    "warmup",
    "weight-decay*", "start-weight-decay", "end-weight-decay", "clip-grad", "adam-*", "sgd-momentum", "seed",
    "init-method-*",
    "override-opt*", "use-checkpoint-*", "no-use-tokenizer-model-from-checkpoint-args", "loss-scale*",
    "initial-loss-scale",
    "hysteresis", "min-loss-scale", "wsd-*", "embedding-init-method-*",
    # checkpoints, logs, evaluation
    "save*", "load", "ckpt-*", "dist-ckpt-*", "async-save", "use-persistent-ckpt-worker", "no-load-*", "no-save-*",
    "auto-detect-ckpt-format", "pretrained-checkpoint", "finetune", "no-ckpt-fully-parallel-save", "log-*",
    "tensorboard-*",
    "wandb-*", "logging-level", "timing-log-level", "timing-log-option", "eval-*", "codecarbon-dir", "kill-switch-path",
    "skip-train", "one-logger-*", "enable-one-logger", "no-one-logger", "non-persistent-*", "dist-ckpt-optim-*",
    "allow-missing-vision-projection-checkpoint", "ckpt", "retro-*",
    # numerics that cost no time here
    "attention-softmax-in-fp32", "apply-query-key-layer-scaling", "no-query-key-layer-scaling", "norm-epsilon",
    "layernorm-epsilon", "apply-layernorm-1p",
    "rotary-*", "use-rope-scaling", "rope-scaling-factor", "rotary-scaling-factor", "mscale*", "no-rope-fusion",
    "rope-type", "mtp-loss-scaling-factor", "qk-clip*", "no-position-embedding", "rotary-seq-len-interpolation-factor",
    "moe-aux-loss-coeff", "moe-loss-coeff", "moe-z-loss-coeff", "moe-router-*", "moe-token-drop-policy",
    "moe-input-jitter-eps",
    "moe-eval-capacity-factor", "moe-min-capacity", "disable-moe-token-dropping", "create-moe-param-group",
    "moe-permute-fusion",
    "moe-grouped-gemm", "moe-token-dispatcher-type", "moe-flex-dispatcher-backend", "moe-deepep-num-sms",
    "moe-per-layer-logging",
    "moe-enable-deepep", "moe-hybridep-num-sms", "moe-apply-probs-on-input", "moe-pad-expert-input-to-capacity",
    "fp8-amax-*", "fp8-margin", "fp8-interval", "no-fp8-wgrad", "fp8-param-gather", "first-last-layers-bf16",
    "num-layers-at-*-in-bf16",
    # fusions: those of the software generation
    "no-bias-gelu-fusion", "no-bias-swiglu-fusion", "no-bias-dropout-fusion", "no-masked-softmax-fusion",
    "no-gradient-accumulation-fusion", "no-persist-layer-norm",
    "abort-on-unmet-fused-kernel-constraints", "sync-tp-duplicated-parameters", "bias-*-fusion",
    "no-async-tensor-model-parallel-allreduce", "deterministic-mode", "calculate-per-token-loss",
    # processes
    "nproc-per-node", "nnodes", "node-rank", "num-nodes", "hostfile", "include", "exclude", "launcher", "no-ssh*",
    "ds-sequence-parallel-size", "master-*", "rdzv-*", "max-restarts", "tee", "distributed-*", "local-rank",
    "manual-gc*", "empty-unused-memory-level", "no-check-for-nan-*", "check-weight-hash-*", "log-dir",
    "high-priority-stream-groups",
    "enable-ft-package", "calc-ft-timeouts", "use-cpu-initialization", "init-model-with-meta-device",
    "fsdp-double-buffer",
    "fsdp-manual-registration", "overlap-param-gather-with-optimizer-step", "align-*", "nccl-communicator-config-path",
    "enable-experimental", "no-pipeline-parallel", "pp-partition-method",
    "use-legacy-models",
    "use-mcore-models", "use-te", "deepspeed", "deepspeed-config", "deepspeed-activation-checkpointing",
    "deepspeed-mpi", "zero-stage", "jobid", "wait", "kill-on-bad-exit", "mpi", "container-*",
    "optimizer-offload-fraction", "recompute-method", "cpu-offloading-num-layers", "offload-modules", "use-nccl-ub",
    "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype", "accumulate-allreduce-grads-in-fp32", "no-initialization",
    # profilers
    "profile*", "record-memory-*", "sample", "cpuctxsw", "trace", "capture-range*", "cuda-graph-trace",
    "cuda-memory-usage",
    "use-pytorch-profiler", "force",
    # settings of other parts of a job: generation of text, rewards, reference models
    "rollout-*", "eval-*", "ref-load", "hf-checkpoint", "prompt-data", "input-key", "label-key",
    "apply-chat-template", "rm-type",
    "num-rollout", "n-samples-*", "balance-data", "advantage-estimator", "use-kl-loss", "kl-*", "entropy-coef",
    "eps-clip*",
    "sglang-*", "head", "node-ip-address", "num-gpus", "disable-usage-stats", "dashboard-*", "address",
    "runtime-env-json",
    "actor-num-*", "colocate", "bert-*", "max-tokens-per-gpu", "use-dynamic-batch-size", "spec",
    "context-parallel-size",
    "vocab-size", "make-vocab-size-divisible-by", "extra-vocab-size", "pad-vocab-size-to", "padded-vocab-size",
    "max-position-embeddings", "num-query-groups", "group-query-attention", "expert-tensor-parallel-size",
)  # fmt: skip
"""Patterns of names without leading dashes; those that a reader has used count as used."""
