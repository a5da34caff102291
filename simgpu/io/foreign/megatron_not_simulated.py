"""Megatron's arguments that change time or memory of a step and are not simulated, with what is in their place.

NVIDIA/Megatron-LM megatron/training/arguments.py; deepspeedai/Megatron-DeepSpeed megatron/arguments.py.
"""

from __future__ import annotations

from typing import Final

from simgpu.io.foreign.megatron_arguments import MegatronArguments

_WHOLE_SEQUENCES: Final = "attention is over whole sequences here, and nothing of them is offloaded"
_MOMENTS: Final = "moments are in fp32 here"
_ATTENTION: Final = "attention is in 16 bits here, and in fp8 in the job"
_NCCL: Final = "tokens go by NCCL's all-to-all here"
_OVERLAPS: Final = (
    "with --tp-comm-overlap, the exchanges of Transformer Engine's own defaults run beside their products"
)
OVERLAPS: Final = ("overlap_ag", "overlap_rs", "split_ag", "split_rs", "bulk_dgrad", "bulk_wgrad")
"""Parts of --tp-comm-overlap that can be switched off, as TransformerConfig ends their names."""
NOT_SIMULATED: Final = {
    "cpu-offloading": "activations stay on the GPU here",
    "cpu-offloading-num-layers": "activations of those layers stay on the GPU here, and go to host memory in the job",
    "fine-grained-activation-offloading": "activations stay on the GPU here",
    "optimizer-cpu-offload": "optimizer states stay on the GPU here",
    "optimizer-offload-policy": "optimizer states stay on the GPU here",
    "fp8-param-gather": "weights are gathered in 16 bits here",
    "no-fp8-wgrad": "weight gradients are products in fp8 here, and the job's take longer",
    "first-last-layers-bf16": "all layers are in fp8 here, and the job's first and last take longer",
    "fp32-residual-connection": "the residual stream is in 16 bits here, and the job moves and keeps more",
    "fp16-lm-cross-entropy": "the loss is in fp32 here, and the job's takes less",
    "deterministic-mode": "kernels are the usual ones here, and the job's are slower",
    "use-precision-aware-optimizer": _MOMENTS,
    "reuse-grad-buf-for-mxfp8-param-ag": "no buffer is shared here",
    "overlap-moe-expert-parallel-comm": "all-to-alls of experts are waited for here",
    "moe-shared-expert-overlap": "the shared expert runs behind the routed ones here",
    "moe-layer-recompute": "layers of experts are not recomputed here: more memory and less time than in the job",
    "moe-expert-capacity-factor": "no token is dropped here",
    "moe-train-capacity-factor": "no token is dropped here",
    "moe-pad-expert-input-to-capacity": "experts compute the tokens that come here, and padded ones too in the job",
    "moe-enable-deepep": _NCCL,
    "moe-token-dispatcher-type": _NCCL,
    "moe-flex-dispatcher-backend": _NCCL,
    "overlap-param-gather-with-optimizer-step": "weights are gathered when the optimizer has updated all of them here",
    "empty-unused-memory-level": "PyTorch keeps its memory here; the job gives it back and takes it again in each step",
    "exp-avg-dtype": _MOMENTS,
    "exp-avg-sq-dtype": _MOMENTS,
    "delay-wgrad-compute": "weight gradients are computed in order here",
    "defer-embedding-wgrad-compute": "weight gradients of the head are computed in order here",
    "overlap-p2p-communication-warmup-flush": "messages of warm-up and cool-down are waited for here",
    "microbatch-group-size-per-virtual-pipeline-stage": "as many micro-batches as pipeline ranks go together here",
    "hierarchical-context-parallel-sizes": "ranks of context parallelism exchange in one level here",
    "num-distributed-optimizer-instances": "the states are shared out among all replicas here",
    "enable-full-sharding-in-hsdp": "the states are shared out among all replicas here",
    "ddp-num-buckets": "buckets have the size of --ddp-bucket-size here",
    "ddp-reduce-scatter-with-fp32-accumulation": "NCCL's reduce-scatter is simulated",
    "suggested-communication-unit-size": "FSDP gathers layer by layer here",
    "keep-fp8-transpose-cache": "no transposed copies of weights are kept here",
    "use-nccl-ub": "collectives use no registered buffers here",
    "use-sharp": "collectives are NCCL's own choice here; network.nccl.algo of a scenario sets another",
    "window-attn-skip-freq": "every layer attends to the window here",
    "no-rope-freq": "every layer has the rotary embedding here",
    "softmax-type": "the softmax is the plain one here",
    "qk-l2-norm": "query and key are not normalised here",
    **{f"disable-tp-comm-{name.replace('_', '-')}": _OVERLAPS for name in OVERLAPS},
    "tp-comm-overlap-rs-dgrad": _OVERLAPS,
    "standalone-embedding-stage": "the embedding is in the first stage of layers here",
    **dict.fromkeys(
        ("ds-sequence-parallel-fpdt", "ds-sequence-parallel-fpdt-chunk-size", "ds-sequence-parallel-fpdt-offloading"),
        _WHOLE_SEQUENCES,
    ),
    "fp8-dot-product-attention": _ATTENTION,
    "fp8-multi-head-attention": _ATTENTION,
    "timing-log-level": "the job waits for its GPU, and from 1 on for all ranks, around what it times",
    "rerun-mode": "each step is played once here, and twice in the job",
    "distributed-backend": "collectives are NCCL's here",
    "pipeline-model-parallel-comm-backend": "messages between stages are NCCL's here",
    "variable-seq-lengths": "messages between stages have one size here, which needs no message before",
    "moe-extended-tp": "experts are divided by expert parallelism here, and over tensor-parallel ranks too in the job",
    "use-checkpoint-args": "the model is the one that is written here; the job takes that of its checkpoint",
    "use-mp-args-from-checkpoint-args": "the degrees are those written here; the job takes those of its checkpoint",
    "random-ltd": "every layer has all tokens here",
    "data-efficiency-curriculum-learning": "sequences have their full length here",
    "num-microbatches-with-partial-activation-checkpoints": "all micro-batches are recomputed alike here",
    "activations-checkpoint-layers-per-pipeline": "every stage is recomputed alike here",
    "checkpoint-in-cpu": "inputs of layers stay on the GPU here",
    "distribute-saved-activations": "each rank keeps the whole input of a layer here",
}  # fmt: skip
_TRIVIAL: Final = {
    "num-distributed-optimizer-instances": ("1",), "softmax-type": ("vanilla",),
    "optimizer-offload-policy": ("static",), "cpu-offloading-num-layers": ("0",), "empty-unused-memory-level": ("0",),
    "exp-avg-dtype": ("fp32",), "exp-avg-sq-dtype": ("fp32",),
    "moe-token-dispatcher-type": ("alltoall", "alltoall_seq"), "timing-log-level": ("0",),
    "rerun-mode": ("disabled", "validate_results"), "distributed-backend": ("nccl",),
    "pipeline-model-parallel-comm-backend": ("nccl",),
}  # fmt: skip
"""Values that are the default, or simulated."""


def note_not_simulated(arguments: MegatronArguments) -> None:
    """Note what of the arguments is not simulated.

    Parameters
    ----------
    arguments : MegatronArguments

    Raises
    ------
    ScenarioError
        For a run that trains nothing.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> from simgpu.io.foreign.ledger import Ledger
    >>> ledger = Ledger(Document(source="a.args", data={"--deterministic-mode": True}))
    >>> note_not_simulated(MegatronArguments(ledger, {"deterministic-mode": "--deterministic-mode"}))
    >>> ledger.notes
    ["--deterministic-mode is not simulated: kernels are the usual ones here, and the job's are slower"]
    """
    if arguments.flag("skip-train"):
        arguments.refuse("skip-train", "leaves training out: there is no step to simulate", fix="leave it out")
    for name, here in NOT_SIMULATED.items():
        if not arguments.has(name):
            continue
        value = arguments.raw(name)
        if str(value) not in _TRIVIAL.get(name, ()):
            arguments.note(f"{arguments.key(name)} is not simulated: {here}")
    _note_order(arguments)


def _note_order(arguments: MegatronArguments) -> None:
    """Note what the job does one after the other: exchanges behind products, and experts one by one."""
    name = "no-async-tensor-model-parallel-allreduce"
    split = (arguments.integer("tensor-model-parallel-size") or 1) > 1
    if split and arguments.flag(name) and not arguments.flag("sequence-parallel"):
        arguments.note(f"{arguments.key(name)} is not simulated: all-reduces run beside the gradients of weights here")
    several = (arguments.integer("num-experts") or 0) > 1 and not arguments.has("deepspeed")
    if several and not arguments.flag("moe-grouped-gemm"):
        key = arguments.key("moe-grouped-gemm")
        arguments.note(f"{key} is not set: the job computes its experts one by one; here they are in one product")
