"""Models that ship with SimGPU, as Hugging Face configs with their sources."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from simgpu.errors import ModelError
from simgpu.workload.architecture import Architecture
from simgpu.workload.huggingface import model_from_huggingface

_FOLDER = files("simgpu").joinpath("data", "models")


@cache
def bundled_models() -> tuple[str, ...]:
    """Return the names of all bundled models, sorted.

    Examples
    --------
    >>> "llama-2-7b" in bundled_models()
    True
    """
    return tuple(sorted(entry.name[:-5] for entry in _FOLDER.iterdir() if entry.name.endswith(".json")))


def bundled_config(name: str) -> dict[str, Any]:
    """Return the packaged config of a model, with ``_source`` and ``_parameters`` (count and its source).

    Raises
    ------
    ModelError
        Lists the bundled names when there is no such model.

    Examples
    --------
    >>> bundled_config("gpt2")["_parameters"]["count"]
    124439808
    """
    if name not in bundled_models():
        raise ModelError(f"no bundled model is called {name!r}; bundled: {', '.join(bundled_models())}")
    config: dict[str, Any] = json.loads(_FOLDER.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return config


@cache
def bundled_model(name: str) -> Architecture:
    """Return a bundled model.

    Raises
    ------
    ModelError
        Lists the bundled names when there is no such model.

    Examples
    --------
    >>> bundled_model("llama-2-7b").parameters
    6738415616
    """
    return model_from_huggingface(bundled_config(name), name=name)
