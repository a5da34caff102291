"""A decoder-only transformer in training as units; blocks differ where only some have experts.

Which ops are one kernel is the software generation's choice (see `simgpu.workload.software`). The same in all of them:
q, k and v come from one GEMM, gate and up from one; activations are in the training precision; the bias of a
column-parallel layer is in the GEMM's epilogue and its gradient one pass over the output gradient; norms' statistics
are left out of what is kept.

Bytes per element and kept activations follow Korthikanti et al. (arXiv 2205.05198) and the kernels named in each part's
module. Without sequence parallelism a block makes two all-reduces forward and two backward; with it two all-gathers and
two reduce-scatters forward, and four all-gathers (two of them repeat the gather of a kept input) and two
reduce-scatters backward. The payload of each is E T h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simgpu.workload.block import block_unit
from simgpu.workload.embedding import embedding_unit
from simgpu.workload.head import head_unit
from simgpu.workload.layer import Layer, ModelUnits
from simgpu.workload.model import Model
from simgpu.workload.shard import Shard
from simgpu.workload.training import Training
from simgpu.workload.unit import Unit

ShardOf = Callable[[Model, Training], Shard]
"""Gives one tensor-parallel rank's part of some blocks, under the run's layout and software."""


def decoder_units(model: Model, training: Training, shard_of: ShardOf) -> ModelUnits:
    """Return embedding, blocks and head.

    Parameters
    ----------
    model : Model
    training : Training
    shard_of : callable

    Examples
    --------
    >>> from functools import partial
    >>> from simgpu.workload.bundled import bundled_model
    >>> model = bundled_model("mixtral-8x7b")
    >>> shard_of = lambda blocks, training: Shard(model=blocks, training=training, tp=1, sequence_parallel=False)
    >>> units = decoder_units(model, Training(sequence_length=64, micro_batch_size=1, accumulation=1), shard_of)
    >>> sum(unit.elements for unit in units.units) == model.parameters
    True
    """
    shard = shard_of(model, training)
    return ModelUnits(embedding=embedding_unit(shard), layers=block_layers(shard), head=head_unit(shard))


def block_layers(shard: Shard) -> tuple[Layer, ...]:
    """Return the blocks of a model, equal ones sharing a Unit.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> training = Training(sequence_length=64, micro_batch_size=1, accumulation=1)
    >>> layers = block_layers(Shard(model=bundled_model("deepseek-v3"), training=training, tp=1,
    ...                             sequence_parallel=False))
    >>> len(layers), len({id(layer.units[0]) for layer in layers})
    (61, 2)
    """
    model = shard.model
    dense, windowed = frozenset(model.dense_layers), frozenset(model.window_layers or ())
    linear = frozenset(model.delta_layers)
    kinds: dict[tuple[bool, bool, bool], Unit] = {}
    layers = []
    for i in range(model.layers):
        kind = (model.experts is not None and i in dense, i in windowed, i in linear)
        if kind not in kinds:
            plain, window, delta = kind
            one = _one_block(model, plain=plain, windowed=window, linear=delta)
            kinds[kind] = block_unit(replace(shard, model=one))
        layers.append(Layer(name=f"block {i}", units=(kinds[kind],)))
    return tuple(layers)


def _one_block(model: Model, *, plain: bool, windowed: bool, linear: bool) -> Model:
    """Return a model whose blocks all are of one kind."""
    if not linear and model.delta is not None:
        model = replace(model, delta=None, delta_layers=())
    if plain:
        model = replace(model, experts=None, dense_layers=())
    return model if windowed or model.window_layers is None else replace(model, sliding_window=None, window_layers=None)
