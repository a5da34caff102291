"""Software generations: which ops are one kernel, and what the CPU needs to issue one. No fudge factors, no seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

OptimizerKernels = Literal["fused", "foreach", "for_loop", "megatron"]
Fp8Scaling = Literal["current", "delayed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCosts:
    """CPU time to issue GPU work.

    Parameters
    ----------
    forward_op_ns : int, nanoseconds
        One kernel issued by forward code: Python, dispatcher, autograd record and launch. Eager PyTorch 10-18 us
        (a tiny matmul 11.3-17.7 us on an H100 host: NVIDIA/dgxc-benchmarking microbenchmarks/cpu_overhead).
    backward_op_ns : int, nanoseconds
        One kernel issued by the autograd engine, in C++: 6-10 us (assumed).
    launch_ns : int, nanoseconds
        A bare CUDA launch, as multi-tensor optimizer kernels and collectives need: 4-6 us (assumed).
    cuda_graphs : bool
        The step is replayed from CUDA graphs: every kernel costs ``graph_node_ns`` instead.
    graph_node_ns : int, nanoseconds
        One kernel of a replayed graph: 1-1.5 us (assumed).
    launch_blocking : bool
        CUDA_LAUNCH_BLOCKING=1: the CPU waits for each kernel before it issues the next.

    Examples
    --------
    >>> HostCosts().forward_op_ns
    14000
    """

    forward_op_ns: int = 14_000
    backward_op_ns: int = 8_000
    launch_ns: int = 5_000
    cuda_graphs: bool = False
    graph_node_ns: int = 1_250
    launch_blocking: bool = False

    @property
    def free(self) -> bool:
        """Issuing costs nothing and waits for nothing: the GPU never waits for the CPU."""
        costs = (self.graph_node_ns,) if self.cuda_graphs else (self.forward_op_ns, self.backward_op_ns, self.launch_ns)
        return not self.launch_blocking and not any(costs)


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
    fused_softmax : bool
        Without flash attention: scale, mask and softmax are one kernel in the activations' format. Otherwise scale,
        mask and an fp32 softmax are kernels of their own.
    fused_norm : bool
        RMSNorm is one kernel; otherwise a chain of elementwise kernels in fp32. LayerNorm always is one kernel.
    fused_bias_activation : bool
        Bias and GeLU are one kernel; otherwise tanh-GeLU is a chain of elementwise kernels.
    fused_bias_dropout_residual : bool
        Bias, dropout and residual are one kernel; otherwise up to three.
    fused_rope : bool
        Rotary embedding of query and key is one kernel; otherwise products, a rotated copy and a sum.
    fused_swiglu : bool
        SiLU and product are one kernel.
    fused_cross_entropy : bool
        The loss reads the logits twice and overwrites them with their gradient; otherwise it is a chain in fp32.
    loss_in_place : bool
        A fused loss overwrites the logits with their gradient; otherwise both are held for a moment.
    fused_wgrad_accumulation : bool
        Weight-gradient GEMMs add into the stored gradient where it lives in a buffer (Megatron's ``main_grad``).
    dummy_gradients : bool
        Then autograd is handed a placeholder, kept for every shape of weights.
    optimizer : str
        ``fused`` (one multi-tensor kernel), ``foreach`` (one multi-tensor kernel per arithmetic step), ``for_loop``
        (one kernel per arithmetic step and tensor), ``megatron`` (fp32 chain: copy gradients, unscale, update, copy
        weights back).
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
    fused_softmax: bool
    fused_norm: bool
    fused_bias_activation: bool
    fused_bias_dropout_residual: bool
    fused_rope: bool
    fused_swiglu: bool
    fused_cross_entropy: bool
    fused_wgrad_accumulation: bool
    optimizer: OptimizerKernels
    attention_kernel: str = ""
    dropout: float = 0.0
    fp8_scaling: Fp8Scaling | None = None
    loss_in_place: bool = False
    dummy_gradients: bool = False
    host: HostCosts = HostCosts()


# Plain PyTorch modules with attn_implementation="eager": huggingface/transformers models/{gpt2,llama}/modeling_*.py,
# activations.py NewGELUActivation; torch.optim.AdamW takes its foreach path on CUDA.
_EAGER: Final = Software(
    name="eager",
    flash_attention=False,
    fused_softmax=False,
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
# rotary embedding nor SwiGLU.
_MEGATRON_2021: Final = replace(
    _EAGER,
    name="megatron-2021",
    fused_softmax=True,
    fused_norm=True,
    fused_bias_activation=True,
    fused_bias_dropout_residual=True,
    optimizer="megatron",
)

# NVIDIA/Megatron-LM v3.0, as in arXiv 2205.05198: also --gradient-accumulation-fusion
# (megatron/core/tensor_parallel/layers.py). Sequence parallelism and selective recomputation, of the same
# release, are fields of a scenario.
_MEGATRON_2022: Final = replace(_MEGATRON_2021, name="megatron-2022", fused_wgrad_accumulation=True)

# FlashAttention-2 era training code on PyTorch: Dao-AILab/flash-attention with its fused rotary embedding, norm and
# SwiGLU kernels, a loss in fp32, and a fused optimizer. FlashAttention-3 (Hopper) came later and is an extra package.
# fp8 as pytorch/ao float8 does it, with dynamic scales.
_FLASH: Final = replace(
    _MEGATRON_2021,
    name="flash",
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
# matmuls stay library calls; optimizer fused=True, as in pytorch/torchtitan. Generated code launches kernels without
# dispatcher or autograd record: the bare launch of 4-6 us (assumed).
_COMPILE: Final = replace(
    _FLASH,
    name="compile",
    fused_cross_entropy=True,
    host=HostCosts(forward_op_ns=6_000, backward_op_ns=6_000),
)

PRESETS: Final[Mapping[str, Software]] = MappingProxyType(
    {software.name: software for software in (_EAGER, _MEGATRON_2021, _MEGATRON_2022, _FLASH, _TE, _COMPILE)}
)
"""Software generations by the name that a scenario gives."""

DEFAULT: Final = PRESETS["flash"]
