"""Arguments beside Megatron's own on its command lines: of its forks, of launchers, and of programs that start it."""

from __future__ import annotations

from typing import Final

BESIDE: Final = (
    # deepspeedai/Megatron-DeepSpeed megatron/arguments.py and DeepSpeed's own
    "deepspeed", "deepspeed-config", "deepspeed-activation-checkpointing", "deepspeed-mpi", "zero-stage",
    "no-pipeline-parallel", "pp-partition-method", "ds-sequence-parallel-size", "create-moe-param-group",
    "moe-loss-coeff", "moe-eval-capacity-factor", "moe-min-capacity", "disable-moe-token-dropping",
    "override-lr-scheduler", "kill-switch-path", "codecarbon-dir", "output-meg-ds-ratio-file",
    "dataset-ratios-path", "universal-checkpoint", "load-tag", "loss-scale-window", "repeated-dataloader",
    "sync-tp-duplicated-parameters", "abort-on-unmet-fused-kernel-constraints", "bias-swiglu-fusion",
    "bias-gelu-fusion", "bias-dropout-fusion", "train-data-exact-num-epochs", "return-data-index",
    "data-efficiency-curriculum-learning", "random-ltd", "tensorboard-debug",
    # alibaba/Pai-Megatron-Patch megatron_patch/arguments.py
    "patch-tokenizer-type", "dataset", "max-padding-length", "dataset-config", "template", "train-mode",
    "prompt-path", "allow-missing-vision-projection-checkpoint", "ckpt", "wsd-decay-iters", "wsd-decay-style",
    # torchrun, DeepSpeed's launcher, Slurm, containers
    "nproc-per-node", "nnodes", "node-rank", "num-nodes", "hostfile", "include", "exclude", "launcher", "no-ssh",
    "no-ssh-check", "master-addr", "master-port", "rdzv-id", "rdzv-backend", "rdzv-endpoint", "rdzv-conf",
    "max-restarts", "monitor-interval", "start-method", "role", "redirects", "tee", "log-dir", "local-addr",
    "standalone", "jobid", "wait", "kill-on-bad-exit", "mpi", "container-image", "container-mounts",
    "container-workdir", "container-name", "container-mount-home", "no-container-mount-home",
    # nsys
    "sample", "cpuctxsw", "trace", "capture-range", "capture-range-end", "cuda-graph-trace", "cuda-memory-usage",
    "force", "force-overwrite", "python-backtrace", "gpu-metrics-device", "stats", "output",
    # THUDM/slime and Ray: generation of text, rewards, reference models
    "rollout-function-path", "rollout-batch-size", "rollout-max-response-len", "rollout-max-prompt-len",
    "rollout-max-context-len", "rollout-num-gpus", "rollout-num-gpus-per-engine", "rollout-shuffle", "rollout-seed",
    "rollout-temperature", "rollout-top-p", "rollout-top-k", "rollout-stop", "rollout-stop-token-ids",
    "rollout-global-dataset", "rollout-buffer-filter-path", "rollout-data-postprocess-path", "ref-load",
    "hf-checkpoint", "prompt-data", "input-key", "label-key", "metadata-key", "tool-key", "apply-chat-template",
    "rm-type", "num-rollout", "num-epoch", "n-samples-per-prompt", "n-samples-per-eval-prompt", "eval-prompt-data",
    "eval-max-response-len", "eval-top-p", "eval-top-k", "eval-temperature", "eval-input-key", "balance-data",
    "advantage-estimator", "use-kl-loss", "kl-loss-coef", "kl-loss-type", "kl-coef", "entropy-coef", "eps-clip",
    "eps-clip-high", "eps-clip-c", "sglang-mem-fraction-static", "sglang-server-concurrency",
    "sglang-enable-dp-attention", "sglang-dp-size", "sglang-ep-size", "sglang-enable-ep-moe",
    "sglang-enable-deepep-moe", "sglang-cuda-graph-bs", "sglang-cuda-graph-max-bs", "sglang-log-level",
    "sglang-max-running-requests", "sglang-context-length", "sglang-decode-log-interval", "sglang-router-ip",
    "sglang-router-port", "sglang-tensor-parallel-size", "sglang-attention-backend", "sglang-speculative-algorithm",
    "actor-num-nodes", "actor-num-gpus-per-node", "colocate", "max-tokens-per-gpu", "use-dynamic-batch-size",
    "dynamic-sampling-filter-path", "over-sampling-batch-size", "partial-rollout", "head", "node-ip-address",
    "num-gpus", "num-cpus", "disable-usage-stats", "dashboard-host", "dashboard-port", "address",
    "runtime-env-json", "dashboard-agent-listen-port",
)  # fmt: skip
"""Names without leading dashes, without effect on time and memory of a step."""
