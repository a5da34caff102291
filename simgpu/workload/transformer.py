"""A model in training as three Units: embedding, block, head, as one tensor-parallel rank runs them.

The op inventory is one software generation, called ``flash``:

==================== ==================================================================================
part                 in this generation
==================== ==================================================================================
attention            flash attention, causal, no dropout; q, k and v in one GEMM, gate and up in one
RoPE                 one fused kernel on q and k, 2E B per element, forward and backward
norms                fused; backward with a second pass for the weight gradients
MLP activation       fused: SwiGLU, or bias + GeLU
bias of a column-    in the GEMM's epilogue; its gradient is one pass over the output gradient
parallel layer
bias + residual      one kernel
weight gradients     written in compute dtype, then added to the stored gradient by a kernel of its own
cross-entropy        unfused, in fp32: 52 B per logit forward and backward
optimizer            fused (see ``simgpu.costs.optimizer``)
dropout              none
activations          all in the training precision; norms' statistics left out of what is kept
==================== ==================================================================================

Bytes per element and kept activations follow Korthikanti et al. (arXiv 2205.05198) and the kernels named in each part's
module. Without sequence parallelism a block makes two all-reduces forward and two backward; with it two all-gathers and
two reduce-scatters forward, and four all-gathers (two of them repeat the gather of a kept input) and two
reduce-scatters backward. The payload of each is E T h.
"""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.workload.block import block_unit
from simgpu.workload.embedding import embedding_unit
from simgpu.workload.head import head_unit
from simgpu.workload.model import Model
from simgpu.workload.shard import Shard
from simgpu.workload.training import Training
from simgpu.workload.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """The three kinds of unit a transformer is made of; every block is the same."""

    embedding: Unit
    block: Unit
    head: Unit


def transformer_units(
    model: Model, training: Training, *, tp: int, sequence_parallel: bool, cast_weights: bool = False
) -> Units:
    """Return what one rank of a tensor-parallel group runs and keeps for one micro-batch.

    Parameters
    ----------
    model : Model
    training : Training
    tp : int
        Tensor-parallel degree.
    sequence_parallel : bool
        Split norms and residuals over tp too; no effect for tp = 1.
    cast_weights : bool
        True for autocast on weights stored in another dtype (DDP with fp32 weights): each GEMM's weights are cast
        once per forward, and the copy lives until the backward. False where weights arrive in compute dtype: they
        are stored in it, or gathered in it (FSDP).

    Returns
    -------
    Units

    Raises
    ------
    ScenarioError
        Lists everything that tp does not divide, a sequence longer than the model takes, and fp8.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> model = bundled_model("llama-2-7b")
    >>> units = transformer_units(model, Training(sequence_length=4096, micro_batch_size=1, accumulation=8),
    ...                           tp=1, sequence_parallel=False)
    >>> units.embedding.elements + model.layers * units.block.elements + units.head.elements
    6738415616
    """
    shard = Shard(model=model, training=training, tp=tp, sequence_parallel=sequence_parallel, cast_weights=cast_weights)
    return Units(embedding=embedding_unit(shard), block=block_unit(shard), head=head_unit(shard))
