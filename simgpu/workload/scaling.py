"""Numbers that a model multiplies its tensors with, and soft caps: passes that Llama's code does not have.

Bytes per element, E of an activation, kernel by kernel as PyTorch runs them:

============ ========================================== ==========================================
pass         forward                                    backward
============ ========================================== ==========================================
multiply     2E                                         2E
soft cap     divide 2E, tanh 2E, multiply 2E            multiply 2E, tanh 3E, divide 2E
============ ========================================== ==========================================

A product with a number keeps nothing; the tanh keeps its result, E. Sources: huggingface/transformers
models/gemma2/modeling_gemma2.py (eager_attention_forward, Gemma2ForCausalLM.forward), models/cohere/modeling_cohere.py
(logit_scale), models/granite/modeling_granite.py (embedding_multiplier, residual_multiplier, logits_scaling).
torch.compile puts all of them into the kernels around them, and computes the tanh again in backward. FlashAttention
takes the cap of the scores as an argument (``softcap``, Dao-AILab/flash-attention v2.6), and Liger's loss that of the
logits (linkedin/Liger-Kernel ops/cross_entropy.py): no pass either.
"""

from __future__ import annotations

from simgpu.workload.elementwise import chain
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.shard import Shard


def scaled(shard: Shard, name: str, elements: int) -> Piece:
    """Return the product of a tensor with a number.

    Parameters
    ----------
    shard : Shard
    name : str
        Beginning of the kernels' names.
    elements : int

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("gpt2"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> [(op.name, op.bytes) for op in scaled(shard, "head", 10).forward]
    [('head.scale', 40)]
    """
    if shard.software.fused_scaling:
        return Piece()
    moved = 2 * shard.element * elements
    return Piece(
        forward=(MemoryBound(name=f"{name}.scale", bytes=moved),),
        backward=(MemoryBound(name=f"{name}.scale.backward", bytes=moved),),
    )


def capped(shard: Shard, name: str, elements: int) -> Piece:
    """Return the soft cap of a tensor: ``cap tanh(x / cap)``.

    Parameters
    ----------
    shard : Shard
    name : str
        Beginning of the kernels' names.
    elements : int

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("gpt2"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> piece = capped(shard, "head", 10)
    >>> [op.name for op in piece.forward], sum(op.bytes for op in piece.backward), piece.saved_bytes
    (['head.cap_divide', 'head.cap_tanh', 'head.cap_multiply'], 140, 20)
    """
    if shard.software.fused_scaling:
        return Piece()
    element = shard.element
    forward = (("cap_divide", 2 * element), ("cap_tanh", 2 * element), ("cap_multiply", 2 * element))
    backward = (
        ("cap_multiply.backward", 2 * element),
        ("cap_tanh.backward", 3 * element),
        ("cap_divide.backward", 2 * element),
    )
    return Piece(
        forward=chain(name, elements, forward),
        backward=chain(name, elements, backward),
        saved_bytes=element * elements,
    )
