"""Recomputation of an imported run: FSDP's own, Trainer's, or both, which Trainer refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.config.imported_run_merge import COMMAND_LINE, Merged
from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.fsdp_options import CHECKPOINTING
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.trainer_recompute import RECOMPUTES

_FIELD: Final = "training.recompute"


def settle_recompute(merged: Merged, readings: Sequence[Reading]) -> None:
    """Recompute blocks where FSDP does, whatever Trainer's own argument says.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    readings : sequence of Reading

    Raises
    ------
    ScenarioError
        Where both are asked for, in the words of huggingface/transformers ``src/transformers/trainer.py``.

    Examples
    --------
    >>> merged = Merged(values={"fsdp.activation_checkpointing": True, "training.recompute": "none"})
    >>> settle_recompute(merged, [])
    >>> merged.values
    {'training.recompute': 'full'}
    """
    by_fsdp, source = merged.get(CHECKPOINTING), merged.sources.get(CHECKPOINTING, "")
    merged.put(CHECKPOINTING, None, "")
    if not by_fsdp or merged.sources.get(_FIELD) == COMMAND_LINE:
        return
    asking = next((reading for reading in readings if RECOMPUTES in reading.open), None)
    if asking is not None:
        problem = (
            f"asks Trainer to recompute, and {source} asks FSDP to (activation_checkpointing): Trainer raises "
            "ValueError, since both can't be set to True"
        )
        fix = "leave one of them out; FSDP's own gathers weights once less"
        raise ScenarioError([Issue(field=asking.open[RECOMPUTES], problem=problem, fix=fix, file=asking.source)])
    merged.put(_FIELD, "full", source)
