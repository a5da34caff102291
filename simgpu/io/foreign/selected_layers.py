"""Every n-th block recomputed, as torchtitan and torchtune count them, in the one number of a scenario."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from simgpu.hardware.table import read_table
from simgpu.io.foreign.dimensions import dimensions
from simgpu.io.foreign.ledger import Ledger


def model_layers(model: Any) -> int | None:
    """Return how many blocks a model has.

    Parameters
    ----------
    model : str, mapping or None
        As a reading has it: a name, or dimensions.

    Returns
    -------
    int or None
        None where neither the bundled models nor ``simgpu/data/hub_models.csv`` have it.

    Examples
    --------
    >>> model_layers("llama-3-8b"), model_layers("llama3_8b"), model_layers({"layers": 3}), model_layers("mine")
    (32, 32, 3, None)
    """
    from simgpu.workload.bundled import bundled_model, bundled_models

    if isinstance(model, str) and model not in bundled_models():
        rows = read_table("hub_models.csv")
        found = next((row["model"] for row in rows if re.fullmatch(row["pattern"], model, re.IGNORECASE)), None)
        model = dimensions(found) if found is not None and "=" in found else found
    if isinstance(model, str) and model in bundled_models():
        return getattr(bundled_model(model), "layers", None)
    return int(model["layers"]) if isinstance(model, dict) and "layers" in model else None


def selected_layers(placed: Sequence[int], pp: int, every: int, *, folded: bool = False) -> list[int]:
    """Return how many blocks of each stage run forward again when every n-th does.

    Parameters
    ----------
    placed : sequence of int
        Blocks of each stage.
    pp : int
        Pipeline ranks.
    every : int
        The n.
    folded : bool
        Whether the last stage is on the first rank, as in ZBV and DualPipeV.

    Returns
    -------
    list of int

    Notes
    -----
    A process counts the blocks of all its stages on, one after the other, from 1, and recomputes the multiples of n
    (pytorch/torchtitan torchtitan/distributed/activation_checkpoint.py, ``_layer_sac_count``).

    Examples
    --------
    >>> selected_layers([10, 22], 2, 3), selected_layers([3, 3, 3, 3], 2, 2)
    ([3, 7], [1, 1, 2, 2])
    """
    counted, selected = [0] * pp, []
    for stage, layers in enumerate(placed):
        at = stage % pp
        rank = pp - 1 - at if folded and stage // pp % 2 else at
        before, counted[rank] = counted[rank], counted[rank] + layers
        selected.append(counted[rank] // every - before // every)
    return selected


def nearest_count(selected: Sequence[int], placed: Sequence[int]) -> int:
    """Return the one number for every stage with which the most nearly as many blocks are recomputed.

    Parameters
    ----------
    selected, placed : sequences of int
        Blocks of each stage that are recomputed, and all of them.

    Returns
    -------
    int

    Examples
    --------
    >>> nearest_count([3, 7], [10, 22]), nearest_count([4, 4, 4, 3], [8, 9, 8, 7])
    (5, 4)
    """
    limits = range(max(placed) + 1)
    return min(limits, key=lambda each: (abs(sum(min(each, layers) for layers in placed) - sum(selected)), -each))


def selected_settings(ledger: Ledger, key: str, selected: Sequence[int], placed: Sequence[int]) -> dict[str, Any]:
    """Return the scenario's fields: one number for all stages, the one that comes nearest to all that is recomputed.

    Parameters
    ----------
    ledger : Ledger
        Learns where stages recompute another number.
    key : str
        Option that asked for it.
    selected, placed : sequences of int
        Blocks of each stage that are recomputed, and all of them.

    Returns
    -------
    dict

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x.toml", data={}))
    >>> selected_settings(ledger, "every", [3, 7], [10, 22])
    {'training.recompute': 'full', 'training.recompute_layers': 5}
    >>> ledger.notes
    ['every: stages of 10, 22 layers recompute 3, 7 of them there, and 2 x 5 here']
    """
    number = nearest_count(selected, placed)
    here = [min(number, layers) for layers in placed]
    if here != [*selected]:
        told = [", ".join(_runs(counts)) for counts in (placed, selected, here)]
        ledger.note(f"{key}: stages of {told[0]} layers recompute {told[1]} of them there, and {told[2]} here")
    if number == 0:
        return {"training.recompute": "none"}
    if number >= max(placed):
        return {"training.recompute": "full"}
    return {"training.recompute": "full", "training.recompute_layers": number}


def _runs(counts: Sequence[int]) -> Iterator[str]:
    """Yield equal numbers that follow each other as one."""
    for count, run in groupby(counts):
        times = len([*run])
        yield f"{times} x {count}" if times > 1 else str(count)
