"""Software generations: which ops are one kernel, and what the CPU needs to issue one. No fudge factors, no seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal

from simgpu.workload.host_costs import HostCosts

OptimizerKernels = Literal["fused", "foreach", "for_loop", "megatron"]
Fp8Scaling = Literal["current", "delayed"]
Fusion = Literal["bias_activation", "bias_dropout", "rope", "gradient_accumulation"]
ScoresSoftmax = Literal["fused", "half", "fp32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """A software generation: one choice per fusion.

    Parameters
    ----------
    name : str
        Name of the preset.
    flash_attention : bool
        One kernel for the attention core that keeps no scores. Otherwise two batched GEMMs with softmax, and dropout
        where there is some, between them, on all s x s scores of a head, causal or not.
    softmax : str
        Without flash attention, what stands between the two GEMMs: ``fused`` (scale, mask and softmax in one kernel, in
        the activations' format), ``half`` (the scale is in the GEMM; mask and softmax are kernels of their own in the
        activations' format) or ``fp32`` (scale, mask, a softmax in fp32 and the cast back).
    fused_norm : bool
        RMSNorm is one kernel; otherwise a chain of elementwise kernels in fp32. LayerNorm always is one kernel.
    fused_bias_activation : bool
        Bias and GeLU are one kernel; otherwise tanh-GeLU is a chain of elementwise kernels.
    activation_bias_kernel : bool
        The bias of the up projection is added by a kernel of its own, and GeLU is PyTorch's one kernel (Megatron's
        --no-bias-gelu-fusion and --no-bias-swiglu-fusion: NVIDIA/Megatron-LM megatron/core/transformer/mlp.py).
    fused_bias_dropout_residual : bool
        Bias, dropout and residual are one kernel; otherwise up to three.
    residual_bias_kernel : bool
        Then the bias is always a kernel of its own; otherwise it is in the GEMM's epilogue, unless the sum over ``tp``
        comes between.
    fused_rope : bool
        Rotary embedding of query and key is one kernel; otherwise products, a rotated copy and a sum.
    fused_swiglu : bool
        SiLU and product are one kernel.
    fused_cross_entropy : bool
        The loss reads the logits twice and overwrites them with their gradient; otherwise it is a chain in fp32.
    fused_linear_loss : bool
        The head's product, the loss and their gradients are computed together in chunks of tokens
        (`simgpu.workload.linear_loss`).
    fused_exponent : bool
        In that chain the maximum is subtracted in the exponential's kernel (Megatron's --cross-entropy-loss-fusion).
    half_precision_loss : bool
        That chain runs in the activations' format, not on fp32 copies of the logits.
    training_metrics : int
        Cross-entropies that the training loop computes of the logits in fp32, besides the loss.
    loss_in_place : bool
        A fused loss overwrites the logits with their gradient; otherwise both are held for a moment.
    reentrant_checkpoint : bool
        Recomputed layers run backward inside a backward (``use_reentrant`` of torch.utils.checkpoint, and Megatron's),
        which holds their output and its gradient to the end.
    sequence_first : bool
        Activations are (sequence, batch, width) around flash attention on (batch, sequence, ...): micro-batches of
        several sequences keep its output in both layouts.
    bias_kernel : bool
        The bias of the projection to q, k and v is added by a kernel of its own; otherwise in the GEMM's epilogue.
    fused_wgrad_accumulation : bool
        Weight-gradient GEMMs add into the stored gradient where it lives in a buffer (Megatron's ``main_grad``).
    dummy_gradients : bool
        Then autograd is handed a placeholder, kept for every shape of weights.
    fused_scaling : bool
        Products with a number and soft caps are part of the kernels around them; otherwise kernels of their own.
    optimizer : str
        ``fused`` (one multi-tensor kernel), ``foreach`` (one multi-tensor kernel per arithmetic step), ``for_loop``
        (one kernel per arithmetic step and tensor), ``megatron`` (fp32 chain: copy gradients, unscale, update, copy
        weights back).
    async_dgrad_reduce : bool
        The all-reduce of a column-parallel layer's input gradient runs under the weight gradient's GEMM; otherwise it
        is waited for behind it. With sequence parallelism, which came later, it always does.
    attention_kernel : str
        Which flash attention it is, as ``simgpu/data/attention_constants.csv`` calls it; a device without that kernel
        runs the first it has.
    dropout : float
        Probability with which its frameworks train GPT-like models unless told otherwise.
    fp8_scaling : str or None
        How fp8 scales are found: ``current`` (a pass over the tensor for its largest value before each cast) or
        ``delayed`` (from earlier steps). None: this generation has no fp8.
    host : HostCosts

    Examples
    --------
    >>> [name for name, software in PRESETS.items() if not software.flash_attention]
    ['eager', 'megatron-2021', 'megatron-2022']
    """

    name: str
    flash_attention: bool
    softmax: ScoresSoftmax
    fused_norm: bool
    fused_bias_activation: bool
    fused_bias_dropout_residual: bool
    fused_rope: bool
    fused_swiglu: bool
    fused_cross_entropy: bool
    fused_wgrad_accumulation: bool
    optimizer: OptimizerKernels
    bias_kernel: bool = False
    activation_bias_kernel: bool = False
    residual_bias_kernel: bool = False
    async_dgrad_reduce: bool = True
    attention_kernel: str = ""
    dropout: float = 0.0
    fp8_scaling: Fp8Scaling | None = None
    fused_linear_loss: bool = False
    fused_exponent: bool = False
    half_precision_loss: bool = False
    training_metrics: int = 0
    loss_in_place: bool = False
    reentrant_checkpoint: bool = True
    sequence_first: bool = False
    dummy_gradients: bool = False
    fused_scaling: bool = False
    host: HostCosts = field(default_factory=HostCosts)

    def without(self, *fusions: Fusion) -> Software:
        """Return this generation without some of its fusions, as Megatron's ``--no-*-fusion`` switch them off.

        Parameters
        ----------
        fusions : str
            ``bias_activation``, ``bias_dropout``, ``rope``, ``gradient_accumulation``.

        Returns
        -------
        Software
            The same where none of them is one kernel here.

        References
        ----------
        NVIDIA/Megatron-LM megatron/core/transformer/mlp.py, fusions/fused_bias_dropout.py (bias_dropout_add_unfused),
        models/common/embeddings/rope_utils.py, tensor_parallel/layers.py.

        Examples
        --------
        >>> PRESETS["te"].without("rope").fused_rope, PRESETS["eager"].without("rope") == PRESETS["eager"]
        (False, True)
        """
        changes: dict[str, bool] = {}
        for fusion in fusions:
            if fusion == "bias_activation":
                changes |= {"fused_swiglu": False, "activation_bias_kernel": self.fused_bias_activation}
            elif fusion == "gradient_accumulation":
                changes["fused_wgrad_accumulation"] = False
            elif fusion == "bias_dropout":
                fused = self.fused_bias_dropout_residual
                changes |= {"fused_bias_dropout_residual": False, "residual_bias_kernel": fused}
            else:
                changes["fused_rope"] = False
        return replace(self, **changes)  # type: ignore[arg-type]


# Plain PyTorch modules with attn_implementation="eager": huggingface/transformers models/{gpt2,llama}/modeling_*.py,
# activations.py NewGELUActivation; torch.optim.AdamW takes its foreach path on CUDA.
_EAGER: Final = Software(
    name="eager",
    async_dgrad_reduce=False,
    flash_attention=False,
    softmax="fp32",
    fused_norm=False,
    fused_bias_activation=False,
    fused_bias_dropout_residual=False,
    fused_rope=False,
    fused_swiglu=False,
    fused_cross_entropy=False,
    fused_wgrad_accumulation=False,
    optimizer="foreach",
    dropout=0.1,  # attn_pdrop, resid_pdrop and embd_pdrop of models/gpt2/configuration_gpt2.py
)

# NVIDIA/Megatron-LM v2.x, as in arXiv 2104.04473 section 4.2: fused scale-mask-softmax, bias-GeLU and
# bias-dropout-add (megatron/model/fused_{softmax,bias_gelu}.py, transformer.py), fused layer norm, and the
# fp16 optimizer of megatron/optimizer/optimizer.py; --attention-dropout and --hidden-dropout are 0.1. It has neither
# rotary embedding nor SwiGLU. Its linear layers multiply and then add their bias: by F.linear of three dimensions,
# which PyTorch of that time did not fuse; v3.0 writes so itself (megatron/core/tensor_parallel/layers.py).
_MEGATRON_2021: Final = replace(
    _EAGER,
    name="megatron-2021",
    softmax="fused",
    fused_norm=True,
    bias_kernel=True,
    fused_bias_activation=True,
    fused_bias_dropout_residual=True,
    optimizer="megatron",
)

# NVIDIA/Megatron-LM v3.0, as in arXiv 2205.05198: also --gradient-accumulation-fusion
# (megatron/core/tensor_parallel/layers.py). Sequence parallelism and selective recomputation, of the same
# release, are fields of a scenario.
_MEGATRON_2022: Final = replace(
    _MEGATRON_2021, name="megatron-2022", fused_wgrad_accumulation=True, async_dgrad_reduce=True
)

# NVIDIA/Megatron-LM core r0.3 and r0.4 (2023) with --use-flash-attn --transformer-impl local: FlashAttention-2 in place
# of CoreAttention (megatron/model/transformer.py FlashSelfAttention). For Llama-like models RMSNorm is PyTorch code
# (megatron/model/rms_norm.py), rotary embedding and SwiGLU too (apply_rope_fusion and bias_swiglu_fusion came with core
# r0.5). Without --use-flash-attn it is what v3.0 was.
_MEGATRON_2023: Final = replace(
    _MEGATRON_2022,
    name="megatron-2023",
    flash_attention=True,
    attention_kernel="flash-2",
    fused_norm=False,
)

# mosaicml/llm-foundry v0.0.4 to v0.4 (2023) under mosaicml/composer: scripts/train/benchmarking/submit_benchmarks.py
# sets attn_impl triton (llmfoundry/models/layers/flash_attn_triton.py, FlashAttention 1 in Triton) and
# low_precision_layernorm, models/mpt/modeling_mpt.py the cross-entropy of Dao-AILab/flash-attention,
# models/layers/ffn.py the GeLU of PyTorch, which is one kernel; composer/optim/decoupled_weight_decay.py updates tensor
# by tensor. Of every micro-batch's logits two metrics are taken, the cross-entropy and its exponential, each with a
# torch.nn.CrossEntropyLoss of its own under autocast (use_train_metrics of models/mpt/modeling_mpt.py;
# composer/metrics/nlp.py; _eval_train_metrics of composer/trainer/trainer.py). activation_checkpointing_reentrant is
# false there, and dropout 0 (scripts/train/yamls). fp8 by TransformerEngine's delayed scaling.
_COMPOSER_2023: Final = replace(
    _EAGER,
    name="composer-2023",
    flash_attention=True,
    attention_kernel="triton-2023",
    fused_norm=True,
    fused_bias_activation=True,
    fused_cross_entropy=True,
    optimizer="for_loop",
    dropout=0.0,
    fp8_scaling="delayed",
    training_metrics=2,
    reentrant_checkpoint=False,
)

# FlashAttention-2 era training code on PyTorch: Dao-AILab/flash-attention with its fused rotary embedding, norm and
# SwiGLU kernels, a loss in fp32, and a fused optimizer. FlashAttention-3 (Hopper) came later and is an extra package.
# fp8 as pytorch/ao float8 does it, with dynamic scales.
_FLASH: Final = replace(
    _MEGATRON_2021,
    name="flash",
    bias_kernel=False,
    async_dgrad_reduce=True,
    flash_attention=True,
    attention_kernel="flash-2",
    fused_rope=True,
    fused_swiglu=True,
    optimizer="fused",
    dropout=0.0,
    fp8_scaling="current",
)

# NVIDIA/TransformerEngine under NVIDIA/Megatron-LM core: its attention (cuDNN's on Hopper and later:
# pytorch/attention/dot_product_attention/utils.py, get_attention_backend), norms, rotary embedding and activations,
# its cross-entropy (pytorch/cross_entropy.py), weight gradients accumulated in the GEMM
# (fuse_wgrad_accumulation; pytorch/module/base.py, get_dummy_wgrad), and core/optimizer/optimizer.py. fp8 with current
# scaling (Float8CurrentScaling).
_TE: Final = replace(
    _FLASH,
    name="te",
    attention_kernel="cudnn",
    fused_cross_entropy=True,
    loss_in_place=True,
    fused_wgrad_accumulation=True,
    dummy_gradients=True,
    optimizer="megatron",
)

# torch.compile with inductor: elementwise chains and reductions become Triton kernels, the loss too; attention and
# matmuls stay library calls; optimizer fused=True, as in pytorch/torchtitan. Generated code launches a kernel in 6.8 to
# 9.1 us, by its number of arguments (meta-pytorch/tritonbench#1017).
_COMPILE: Final = replace(
    _FLASH,
    name="compile",
    fused_cross_entropy=True,
    fused_scaling=True,
    reentrant_checkpoint=False,
    host=HostCosts(forward_op_ns=8_000, backward_op_ns=8_000),
)

_ALL: Final = (_EAGER, _MEGATRON_2021, _MEGATRON_2022, _MEGATRON_2023, _COMPOSER_2023, _FLASH, _TE, _COMPILE)

PRESETS: Final[Mapping[str, Software]] = MappingProxyType({software.name: software for software in _ALL})
"""Software generations by the name that a scenario gives."""

DEFAULT: Final = PRESETS["flash"]
