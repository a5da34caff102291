"""What a scenario leaves to SimGPU: fields that its file does not give, with what they came to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from simgpu.config.block import Block, field_help
from simgpu.config.case import Case
from simgpu.config.data_parallel_block import DdpBlock, DistributedOptimizerBlock, FsdpBlock, ZeroBlock
from simgpu.config.parallel_block import ParallelBlock
from simgpu.config.training_block import TrainingBlock
from simgpu.metrics.assumption import Assumption
from simgpu.parallel.data_parallel_options import FSDP_KINDS

_BLOCKS: Final[Mapping[str, type[Block]]] = {"training": TrainingBlock, "parallel": ParallelBlock}
_OPTIONS: Final[Mapping[str, type[Block]]] = {
    "ddp": DdpBlock, "zero": ZeroBlock, "fsdp": FsdpBlock, "distributed_optimizer": DistributedOptimizerBlock,
}  # fmt: skip
_NAMES: Final = {"gradient_accumulation": "accumulation", "global_batch_size": ""}
_UNUSED: Final = ("None", "false", "0", "0.0", "", "1", "1.0", "none")
"""What fields that change nothing come to."""


def given_fields(data: Mapping[str, Any], overrides: Iterable[str] = ()) -> frozenset[str]:
    """Return the dotted fields that a scenario gives, in any of its variants.

    Parameters
    ----------
    data : mapping
        What the file holds.
    overrides : iterable of str
        ``a.b=value``.

    Returns
    -------
    frozenset of str

    Examples
    --------
    >>> data = {"training": {"precision": "bf16"}, "variants": [{"name": "a", "set": {"parallel.tp": 2}}]}
    >>> sorted(given_fields(data, ["model=gpt2"]))
    ['model', 'parallel', 'parallel.tp', 'training', 'training.precision']
    """
    found: set[str] = set()

    def add(path: str, value: object) -> None:
        parts = path.split(".")
        found.update(".".join(parts[:length]) for length in range(1, len(parts) + 1))
        if isinstance(value, Mapping):
            for key, below in value.items():
                add(f"{path}.{key}", below)

    variants = data.get("variants")
    for key, value in data.items():
        if key != "variants":
            add(str(key), value)
    for variant in variants if isinstance(variants, list) else ():
        for key, value in (variant.get("set") or {}).items() if isinstance(variant, Mapping) else ():
            add(str(key), value)
    for setting in overrides:
        add(setting.partition("=")[0].strip(), None)
    return frozenset(found)


def defaults(case: Case, given: frozenset[str]) -> tuple[Assumption, ...]:
    """List the fields of a case that its scenario does not give and that are not simply off.

    Parameters
    ----------
    case : Case
    given : frozenset of str
        Of `given_fields`.

    Returns
    -------
    tuple of Assumption
        With what each came to, and its meaning as source.

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> case = load_cases("four_vs_eight")[0]
    >>> [one.what for one in defaults(case, frozenset({"training.sequence_length"}))][:2]
    ['training.gradient_accumulation', 'training.precision']
    """
    kind = case.strategy.data_parallel
    option = "zero" if kind.startswith("zero") else "fsdp" if kind in FSDP_KINDS else kind
    homes: dict[str, tuple[type[Block], object]] = {
        "training": (_BLOCKS["training"], case.training),
        "parallel": (_BLOCKS["parallel"], case.strategy),
    }
    if option in _OPTIONS and case.strategy.dp > 1:
        homes[option] = (_OPTIONS[option], getattr(case.strategy, option))
    found = []
    for section, (block, resolved) in homes.items():
        meanings = field_help(block)
        for name in block.model_fields:
            path = f"{section}.{name}"
            value = getattr(resolved, _NAMES.get(name, name) or "_", None)
            if path in given or _text(value) in _UNUSED or (section == "parallel" and not _matters(case, name)):
                continue
            meaning = re.split(r"(?<=\w)\.\s", " ".join(meanings.get(name, "").split()))[0].rstrip(".")
            found.append(
                Assumption(topic="scenario", what=path, value=_text(value), standing="default", source=meaning)
            )
    return tuple(found)


def _matters(case: Case, name: str) -> bool:
    """Whether a field of the ``parallel`` block says anything about this layout."""
    strategy = case.strategy
    if name in ("schedule", "virtual_stages", "layers_per_stage", "pipeline_microbatches", "overlap_p2p"):
        return strategy.pp > 1
    if name == "cp_comm_type":
        return strategy.cp > 1
    if name in ("order", "data_parallel", "dp"):
        return case.cluster.world_size > 1
    return True


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return str(getattr(value, "value", value))
