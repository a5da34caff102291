"""What of an imported run depends on its model or machines: dropout, frozen layers, formats, automatic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.config.imported_run_formats import loaded_dtype, loaded_formats, unsharded_amp
from simgpu.config.imported_run_merge import Merged
from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.hf_config import config_dropout
from simgpu.io.foreign.reading import Reading
from simgpu.io.json_file import read_json
from simgpu.workload.architecture import Architecture
from simgpu.workload.residual_block import EXPANSION
from simgpu.workload.resnet import STEM, ResNet

_AUTO: Final = {
    "reduce_bucket_size": "zero_optimization.reduce_bucket_size",
    "stage3_prefetch_bucket_size": "zero_optimization.stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold": "zero_optimization.stage3_param_persistence_threshold",
}


def take_dropout(merged: Merged, model: Any) -> None:
    """Take the dropout of a ``config.json``, which Transformers trains with, where no file says another.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    model : str or mapping
        A scenario's ``model``.

    Examples
    --------
    >>> merged = Merged()
    >>> take_dropout(merged, "gpt2")
    >>> merged.values
    {}
    """
    if isinstance(model, str) and model.endswith(".json") and "training.dropout" not in merged.values:
        merged.put("training.dropout", config_dropout(read_json(Path(model)).data), Path(model).name)


def settle_formats(merged: Merged, readings: Sequence[Reading], gpus: int) -> None:
    """Settle what is in 16 bits where it depends on how replicas are joined.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    readings : sequence of Reading
    gpus : int

    Examples
    --------
    >>> merged = Merged(values={"training.precision": "bf16", "parallel.tp": 2})
    >>> settle_formats(merged, [Reading(source="job.toml", kind="torchtitan", settings={})], 2)
    >>> merged.values["training.precision"]
    'fp32'
    """
    if any(reading.kind == "torchtitan" for reading in readings):
        unsharded_amp(merged, gpus)
    loaded = loaded_dtype(readings)
    if loaded is not None and merged.get("training.lora") is None:
        loaded_formats(merged, loaded)


def freeze_layers(merged: Merged, readings: Sequence[Reading], model: Architecture | None) -> None:
    """Freeze all layers but the last few that a file trains.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    readings : sequence of Reading
        The number of trained layers is in ``open["frozen_but_last"]``.
    model : Architecture or None

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> merged = Merged()
    >>> reading = Reading(source="sft.yaml", kind="llamafactory", settings={}, open={"frozen_but_last": "8"})
    >>> freeze_layers(merged, [reading], bundled_model("llama-3-8b"))
    >>> merged.values
    {'training.frozen': 0.75}
    """
    for reading in readings:
        trained = reading.open.get("frozen_but_last")
        if trained is not None and model is not None and "training.frozen" not in merged.values:
            merged.put("training.frozen", max(0.0, 1 - int(trained) / model.layers), reading.source)


def fill_automatic(merged: Merged, readings: Sequence[Reading], model: Architecture | None, assumed: list[str]) -> None:
    """Fill in ``"auto"`` sizes of ZeRO as Transformers and Accelerate do, from the width of the model.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    readings : sequence of Reading
    model : Architecture or None
    assumed : list of str
        What no file says.

    Raises
    ------
    ScenarioError
        For a model without a width.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> merged = Merged(values={"parallel.data_parallel": "zero2"})
    >>> key = "zero_optimization.reduce_bucket_size"
    >>> reading = Reading(source="ds.json", kind="deepspeed", settings={}, open={key: "auto"})
    >>> fill_automatic(merged, [reading], bundled_model("gpt2"), [])
    >>> merged.values["zero.reduce_bucket_size"] == 768 * 768
    True
    """
    found = next((reading for reading in readings if reading.kind == "deepspeed"), None)
    kind = merged.get("parallel.data_parallel")
    if found is None or not str(kind).startswith("zero"):
        return
    open_sizes = [name for name, key in _AUTO.items() if key in found.open and f"zero.{name}" not in merged.values]
    if kind != "zero3":
        open_sizes = [name for name in open_sizes if name == "reduce_bucket_size"]
    if not open_sizes:
        return
    hidden = None if model is None else config_width(model)
    if hidden is None:
        left = ", ".join(_AUTO[name] for name in open_sizes)
        problem = (
            "has neither `hidden_size` nor `hidden_sizes`, therefore it's not possible to automatically fill out the "
            f"following `auto` entries in the DeepSpeed config file: {left}"
        )
        fix = "replace `auto` values for these keys with an integer value of your choice"
        raise ScenarioError([Issue(field="model", problem=problem, fix=fix, file=found.source)])
    values = {
        "reduce_bucket_size": hidden * hidden,
        "stage3_prefetch_bucket_size": int(0.9 * hidden * hidden),
        "stage3_param_persistence_threshold": 10 * hidden,
    }
    for name in open_sizes:
        merged.put(f"zero.{name}", values[name], found.source)
    merged.notes.append(
        f"'auto' of {', '.join(open_sizes)}: filled in from the hidden size {hidden}, as Transformers and Accelerate do"
    )


def config_width(model: Architecture) -> int | None:
    """Return the width from which Transformers fills in ``"auto"``, of the model's ``config.json``.

    Parameters
    ----------
    model : Architecture

    Returns
    -------
    int or None
        ``hidden_size`` (of T5 ``d_model``), else the largest of ``hidden_sizes`` (ResNet), else the text tower's
        ``hidden_size`` (CLIP).

    References
    ----------
    huggingface/transformers ``src/transformers/integrations/deepspeed.py``, trainer_config_finalize

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> [config_width(bundled_model(name)) for name in ("bert-base", "t5-base", "resnet-50", "clip-vit-l-14")]
    [768, 768, 2048, 768]
    """
    if isinstance(model, ResNet):
        return STEM * EXPANSION[model.block] << (len(model.depths) - 1)
    for name in ("blocks", "encoder", "text"):
        model = getattr(model, name, model)
    width = getattr(model, "hidden", None)
    return width if isinstance(width, int) else None
