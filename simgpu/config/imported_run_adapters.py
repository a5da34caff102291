"""Adapters of an imported run whose targets no file names: those that huggingface/peft takes for the model's type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simgpu.config.imported_run_merge import COMMAND_LINE, Merged
from simgpu.errors import Issue, ScenarioError
from simgpu.hardware.table import read_table
from simgpu.io.foreign.adapters import adapter_targets
from simgpu.io.foreign.document import Document
from simgpu.io.foreign.ledger import Ledger

_FIELD: Final = "training.lora"


def settle_targets(merged: Merged, model_type: str | None, assumed: list[str]) -> None:
    """Give adapters PEFT's targets where files give none.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    model_type : str or None
        As in the model's ``config.json``; None where nobody says.
    assumed : list of str
        Gets a sentence.

    Raises
    ------
    ScenarioError
        For a type without a default, which PEFT refuses too.

    References
    ----------
    huggingface/peft src/peft/tuners/lora/model.py (_prepare_adapter_config) and src/peft/utils/constants.py
    (TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING)

    Examples
    --------
    >>> merged, assumed = Merged(values={"training.lora": {"rank": 8}}), []
    >>> settle_targets(merged, "mistral", assumed)
    >>> merged.values, assumed[0]
    ({'training.lora': {'rank': 8, 'targets': ['q_proj', 'v_proj']}}, \
"training.lora.targets: q_proj, v_proj, PEFT's default for mistral, since no file names them")
    """
    lora, source = merged.get(_FIELD), merged.sources.get(_FIELD, "")
    if not isinstance(lora, Mapping) or "targets" in lora or source == COMMAND_LINE:
        return
    modules = next(
        (row["modules"].split() for row in read_table("peft_targets.csv") if row["model_type"] == model_type), None
    )
    if modules is None:
        known = (
            f"PEFT has no default for {model_type}"
            if model_type
            else "PEFT's default depends on the model's type, which no file says"
        )
        problem = f"are not given, and {known}: Please specify `target_modules` in `peft_config`"
        fix = f"name them (lora_target_modules), or --set {_FIELD}={{rank: {lora['rank']}, targets: [q_proj, v_proj]}}"
        raise ScenarioError([Issue(field=f"{_FIELD}.targets", problem=problem, fix=fix, file=source or None)])
    ledger = Ledger(Document(source=source, data={}))
    targets = adapter_targets(ledger, "target_modules", modules)
    merged.put(_FIELD, {**lora, **targets}, source)
    merged.notes += ledger.notes
    named = ", ".join(modules)
    assumed.append(f"{_FIELD}.targets: {named}, PEFT's default for {model_type}, since no file names them")
