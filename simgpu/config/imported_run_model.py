"""The model of an imported run: a bundled one under its name in other programs, a config.json, or dimensions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from simgpu.config.near import did_you_mean
from simgpu.errors import Issue, ScenarioError
from simgpu.hardware.table import read_table
from simgpu.io.foreign.dimensions import dimensions
from simgpu.io.json_file import read_json
from simgpu.io.user_path import is_folder, is_readable, user_path


def known_model(name: str, folder: Path) -> str | None:
    """Return what a scenario calls a model: a bundled name, or the path of a config.json.

    Parameters
    ----------
    name : str
        A bundled name, a path, or the model's name on the Hugging Face hub or in torchtune.
    folder : Path
        Where relative paths start.

    Returns
    -------
    str or None
        None when neither a file nor `simgpu/data/hub_models.csv` gives its dimensions.

    Examples
    --------
    >>> known_model("meta-llama/Meta-Llama-3-8B-Instruct", Path()), known_model("someone/else", Path())
    ('llama-3-8b', None)
    """
    from simgpu.workload.bundled import bundled_models

    if name.lower() in bundled_models():
        return name.lower()
    path = folder / user_path(name)
    if is_folder(path) and is_readable(path / "config.json"):
        return str(path / "config.json")
    if is_readable(path) and path.suffix == ".json":
        return str(path)
    found = _listed(name)
    return found if isinstance(found, str) else None


def _listed(name: str) -> str | dict[str, Any] | None:
    """Return what the table of models has under a name: a bundled name, or dimensions."""
    return next((model for pattern, model in _hub() if pattern.fullmatch(name)), None)


@cache
def _hub() -> tuple[tuple[re.Pattern[str], str | dict[str, Any]], ...]:
    return tuple(
        (re.compile(row["pattern"], re.IGNORECASE), dimensions(row["model"]) if "=" in row["model"] else row["model"])
        for row in read_table("hub_models.csv")
    )


def model_type(named: Any, model: Any) -> str | None:
    """Return the ``model_type`` of a model's ``config.json``.

    Parameters
    ----------
    named : str, mapping or None
        What the files say.
    model : str or mapping
        A scenario's ``model``, which stands for it.

    Returns
    -------
    str or None
        None for dimensions of nobody's, and for a bundled model that is not on the Hugging Face hub.

    Examples
    --------
    >>> model_type("Qwen/Qwen3-8B", {}), model_type(None, "gpt2-xl"), model_type(None, "gpt3-175b")
    ('qwen3', 'gpt2', None)
    """
    base = model.get("base") if isinstance(model, Mapping) else model
    if isinstance(base, str) and base.endswith(".json"):
        found = read_json(Path(base)).data.get("model_type")
        return found if isinstance(found, str) else None
    rows = read_table("hub_models.csv")
    for name in (base, named):
        if not isinstance(name, str):
            continue
        for row in rows:
            if name == row["model"] or re.fullmatch(row["pattern"], name, re.IGNORECASE):
                return row["model_type"]
    return None


def choose_model(named: Any, source: str, answer: str | None, folder: Path) -> tuple[Any, str | None]:
    """Return the ``model`` field of a scenario.

    Parameters
    ----------
    named : str, mapping or None
        What the files say.
    source : str
        The file that says so.
    answer : str or None
        What ``--model`` says; it goes first.
    folder : Path
        Where relative paths of the files start.

    Returns
    -------
    (str or dict, str or None)
        The field, and a note.

    Raises
    ------
    ScenarioError
        When nobody says which model, or nobody gives its dimensions.

    Examples
    --------
    >>> choose_model("NousResearch/Llama-2-7b-hf", "a.yml", None, Path())
    ('llama-2-7b', 'model: llama-2-7b has the dimensions of NousResearch/Llama-2-7b-hf, which a.yml names')
    """
    from simgpu.workload.bundled import bundled_models

    if answer is not None:
        found = known_model(answer, Path())
        sizes = _listed(answer)
        if found is None and isinstance(sizes, dict):
            return dict(sizes), f"model: dimensions of {answer}"
        if found is None:
            issue = Issue(
                field="--model", value=answer, problem="is neither bundled nor a config.json",
                allowed=f"the path of a config.json, or {', '.join(bundled_models())}",
                fix=did_you_mean(answer, bundled_models()),
            )  # fmt: skip
            raise ScenarioError([issue])
        replaced = isinstance(named, str) and known_model(named, folder) != found
        return found, f"model: {answer}, given for {named}, which {source} names" if replaced else None
    if isinstance(named, Mapping):
        return dict(named), None
    if named is None:
        problem, fix = (
            "is missing: no file says which model is trained",
            "add --model NAME, or its config.json as a file",
        )
        raise ScenarioError([Issue(field="model", problem=problem, fix=fix)])
    found = known_model(str(named), folder)
    sizes = _listed(str(named))
    if found is None and isinstance(sizes, dict):
        return dict(sizes), f"model: dimensions of {named}, which {source} names"
    if found is None:
        problem, fix = "is named, and no file gives its dimensions", "add --model PATH of its config.json"
        raise ScenarioError([Issue(field="model", value=str(named), problem=problem, fix=fix, file=source)])
    if found == named:
        return found, None
    return found, f"model: {Path(found).name} has the dimensions of {named}, which {source} names"
