"""Weights that are not trained: no gradient, and no backward where nothing before needs one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from simgpu.workload.architecture import Architecture
from simgpu.workload.families import model_units
from simgpu.workload.layer import ModelUnits
from simgpu.workload.lora import Adapter, adapters
from simgpu.workload.model import Model
from simgpu.workload.op import Gemm
from simgpu.workload.training import Training
from simgpu.workload.unit import GradientReady, Parameter, PassItem, Unit

_READ_AGAIN: Final = ("attention.out",)  # flash attention keeps its output for its own backward
_ROW_PARALLEL: Final = ("attention.out", "mlp.down")
_TABLES: Final = ("embedding", "positions")


def trained_units(parts: ModelUnits, model: Architecture, training: Training, *, scattered: int = 1) -> ModelUnits:
    """Leave out what frozen weights do not need, and add adapters.

    Parameters
    ----------
    parts : ModelUnits
    model : Architecture
    training : Training
        ``frozen_share`` freezes the embedding and that share of the layers, from the bottom; ``frozen_names`` every
        weight whose name, or whose unit's kind, contains one of them; ``lora`` all but its adapters and what it
        saves.
    scattered : int
        Ranks over which the inputs of column-parallel layers are split (sequence parallelism).

    Notes
    -----
    A frozen linear layer has no weight gradient and does not keep its input, unless something else reads it. Autograd
    does not enter units below the first trained weight: they have no backward and keep nothing. In the first unit
    above them the gradient of its input is still computed.

    A module that is trained beside adapters is a copy: the frozen original stays (huggingface/peft
    src/peft/utils/other.py, ModulesToSaveWrapper), and a head that was tied to the embedding has a table of its own.
    Sharded weights of a unit are gathered with its originals, as FSDP does; ZeRO-3 leaves those out.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.families import model_units
    >>> model = bundled_model("gpt2")
    >>> training = Training(sequence_length=64, micro_batch_size=1, accumulation=1, frozen_share=0.5)
    >>> parts = trained_units(model_units(model, training), model, training)
    >>> [bool(layer.units[0].backward) for layer in parts.layers][4:8]
    [False, False, True, True]
    """
    if not (training.frozen_share or training.frozen_names or training.lora):
        return parts
    originals = _originals(parts, training)
    if training.lora and training.lora.saved_layers:
        parts = replace(parts, head=_untied(parts.head))
    frozen_layers = round(training.frozen_share * len(parts.layers))
    made: dict[tuple[int, bool, bool], Unit] = {}
    below = True

    def adapt(unit: Unit, bottom: bool) -> Unit:
        nonlocal below
        names = frozenset(p.name for p in unit.parameters if bottom or is_frozen(unit, p, training))
        added = _adapters(unit, model, training)
        below = below and not added and len(names) == len(unit.parameters)
        key = (id(unit), bottom, below)
        if key not in made:
            made[key] = _asleep(unit) if below else _freeze(unit, names, added, training, scattered)
        return made[key]

    def top(unit: Unit, bottom: bool = False) -> Unit:
        adapted = adapt(unit, bottom)
        kept = tuple(p for p in originals if any(p.name.startswith(f"{other.name}.") for other in unit.parameters))
        return replace(adapted, parameters=(*adapted.parameters, *kept)) if kept else adapted

    embedding = top(parts.embedding, training.frozen_share > 0)
    layers = []
    for index, layer in enumerate(parts.layers):
        bottom = index < frozen_layers
        entry = None if layer.entry is None else adapt(layer.entry, bottom)
        layers.append(replace(layer, units=tuple(adapt(unit, bottom) for unit in layer.units), entry=entry))
    return ModelUnits(embedding=embedding, layers=tuple(layers), head=top(parts.head))


def is_frozen(unit: Unit, parameter: Parameter, training: Training) -> bool:
    """Return whether a weight is frozen by name, or because only adapters and saved modules are trained."""
    if training.lora is not None:
        return not _is_saved(parameter, training)
    return any(name in parameter.name or name == unit.kind for name in training.frozen_names)


def unmatched_names(parts: ModelUnits, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that no weight and no kind of unit contains.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.families import model_units
    >>> training = Training(sequence_length=64, micro_batch_size=1, accumulation=1)
    >>> unmatched_names(model_units(bundled_model("gpt2"), training), ["embedding", "mlp", "conv"])
    ('conv',)
    """
    known = {name for unit in parts.units for name in (unit.kind, *(p.name for p in unit.parameters))}
    return tuple(name for name in names if not any(name in other for other in known))


def spared_flops(model: Architecture, training: Training) -> tuple[int, int]:
    """Return the FLOPs of one micro-batch that frozen weights spare, less those of adapters.

    Parameters
    ----------
    model : Architecture
    training : Training

    Returns
    -------
    int
        Of forward and backward.
    int
        With recomputation.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> training = Training(sequence_length=64, micro_batch_size=1, accumulation=1, frozen_names=("mlp",))
    >>> spared_flops(bundled_model("gpt2"), training)[0] == 2 * 64 * 12 * 8 * 768 * 768  # their weight gradients
    True
    """
    plain = replace(training, frozen_share=0.0, frozen_names=(), lora=None)
    if plain == training:
        return 0, 0
    parts = model_units(model, plain)
    whole, left = (_flops(each) for each in (parts, trained_units(parts, model, training)))
    return whole[0] - left[0], sum(whole) - sum(left)


def _flops(parts: ModelUnits) -> tuple[int, int]:
    """FLOPs of forward and backward, and of recomputation."""
    passes = [(unit.forward + unit.backward, unit.recompute) for unit in parts.units]
    once, again = (sum(getattr(item, "flops", 0) for each in passes for item in each[i]) for i in (0, 1))
    return once, again


def _is_saved(parameter: Parameter, training: Training) -> bool:
    return training.lora is not None and parameter.name.rpartition(".")[0] in training.lora.saved_layers


def _originals(parts: ModelUnits, training: Training) -> tuple[Parameter, ...]:
    """Return the frozen originals that no unit uses: of a tied table there is one, which the other module may use."""
    saved = [p for unit in (parts.embedding, parts.head) for p in unit.parameters if _is_saved(p, training)]
    names = {p.name for p in saved}
    tied = {p.name: p.tied for p in parts.head.parameters if p.tied is not None}
    used = {name for pair in tied.items() for name in pair if not names.issuperset(pair)}
    return tuple(
        replace(p, name=f"{p.name}.original", frozen=True, accumulated=False, fp8=False)
        for p in saved
        if p.name not in used and p.tied is None
    )


def _untied(head: Unit) -> Unit:
    return replace(head, parameters=tuple(replace(p, tied=None) for p in head.parameters))


def _adapters(unit: Unit, model: Architecture, training: Training) -> tuple[Adapter, ...]:
    if training.lora is None or not isinstance(model, Model):
        return ()
    return adapters(unit, model, training.lora)


def _asleep(unit: Unit) -> Unit:
    """Return a unit that autograd does not enter."""
    return replace(
        unit,
        parameters=tuple(replace(p, frozen=True) for p in unit.parameters),
        backward=(),
        recompute=(),
        saved_bytes=0,
        recomputed_bytes=0,
        backward_bytes=0,
    )


def _freeze(unit: Unit, names: frozenset[str], added: tuple[Adapter, ...], training: Training, scattered: int) -> Unit:
    """Return a unit without the gradients of some weights, and with adapters."""
    if not names and not added:
        return unit
    adapted = {adapter.product for adapter in added}
    backward, unread = _backward(unit, names, added, scattered)
    forward = tuple(_forward(unit, names, added))
    unmade = {
        op.name: op.m * op.n * op.accumulate_bytes
        for op in unit.forward
        if isinstance(op, Gemm) and _is_of_frozen(op.name, names)
    }
    more = sum(adapter.saved_bytes for adapter in added)
    full = training.recompute == "full" and bool(unit.recompute)
    fewer = sum(size for product, size in unread.items() if product not in adapted)
    return replace(
        unit,
        parameters=(
            *(replace(p, frozen=True) if p.name in names else p for p in unit.parameters),
            *(p for adapter in added for p in adapter.parameters),
        ),
        forward=forward,
        backward=backward,
        recompute=forward if unit.recompute == unit.forward else unit.recompute,
        saved_bytes=unit.saved_bytes + (0 if full else more - fewer),
        recomputed_bytes=unit.recomputed_bytes + (more - fewer if full else 0),
        logits_bytes=unit.logits_bytes - sum(unmade.values()),
    )


def _is_of_frozen(name: str, names: frozenset[str]) -> bool:
    """Whether a product makes the gradient of a frozen weight."""
    return name.endswith(".wgrad") and f"{name.removesuffix('.wgrad')}.weight" in names


def _forward(unit: Unit, names: frozenset[str], added: tuple[Adapter, ...]) -> Iterator[PassItem]:
    for item in unit.forward:
        name = getattr(item, "name", "")
        if _is_of_frozen(name, names) or _of_a_frozen(name, names, unit.kind):
            continue  # a loss in chunks makes the gradients of the head
        yield item
        for adapter in added:
            if isinstance(item, Gemm) and item.name == adapter.product:
                yield from adapter.forward()


def _backward(
    unit: Unit, names: frozenset[str], added: tuple[Adapter, ...], scattered: int
) -> tuple[tuple[PassItem, ...], dict[str, int]]:
    """Return the backward, and the bytes of the inputs that frozen products need no more."""
    items: list[PassItem] = []
    unread: dict[str, int] = {}
    for item in unit.backward:
        if isinstance(item, GradientReady):
            left = [name for name in item.parameters if name not in names]
            for adapter in added:
                if f"{adapter.product}.weight" in item.parameters:
                    left += [p.name for p in adapter.parameters]
            if left:
                items.append(GradientReady(parameters=tuple(left)))
            continue
        name = getattr(item, "name", "")
        product = name.removesuffix(".wgrad")
        if _is_of_frozen(name, names):
            if isinstance(item, Gemm) and item.stored is None and product not in _READ_AGAIN:
                ways = 1 if product in _ROW_PARALLEL else scattered
                unread[product] = item.n * item.k * item.dtype.bytes // ways
            for adapter in added:
                if adapter.product == product:
                    items += adapter.backward()
        elif not _of_a_frozen(name, names, unit.kind):
            items.append(item)
    return tuple(items), unread


def _of_a_frozen(name: str, names: frozenset[str], kind: str) -> bool:
    """Whether an op of backward only makes the gradient of a frozen weight."""
    for frozen in names:
        owner, _, which = frozen.rpartition(".")
        if which == "bias" and name == f"{owner}.bias_gradient":
            return True
        if which == "weight" and name.startswith(f"{owner}.weight_gradient"):
            return True
        if kind == "embedding" and which == "weight" and name == f"{owner}.backward" and owner in _TABLES:
            return True
    return False
