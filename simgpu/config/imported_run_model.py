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
    model = (_listed(name) or {}).get("model", "")
    return model if model and "=" not in model else None


def _listed(name: str) -> dict[str, str] | None:
    """Return the row of the table of models that has a name."""
    return next((row for pattern, row in _hub() if pattern.fullmatch(name)), None)


@cache
def _hub() -> tuple[tuple[re.Pattern[str], dict[str, str]], ...]:
    return tuple((re.compile(row["pattern"], re.IGNORECASE), row) for row in read_table("hub_models.csv"))


def _sizes(row: dict[str, str] | None) -> dict[str, Any] | None:
    """Return the dimensions of a row; None for one that stands for a bundled model, or for none."""
    return dimensions(row["model"]) if row is not None and "=" in row["model"] else None


def _left_out(name: Any) -> str:
    """Return what is left out of a model that the table has, to be put behind a note."""
    from simgpu.workload.huggingface_notes import model_notes

    row = _listed(name) if isinstance(name, str) else None
    if row is None:
        return ""
    said = [*model_notes({"model_type": row["model_type"]}), row["note"]]
    return "".join(f"; {text}" for text in said if text)


def _not_modelled(row: dict[str, str] | None) -> str | None:
    """Return why a model that the table has is refused."""
    from simgpu.workload.refused import FEATURES

    if row is None or row["model"]:
        return None
    return f"is not modelled: it has {row['note'] or FEATURES[row['model_type']]}"


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
    for name in (base, named):
        for pattern, row in _hub() if isinstance(name, str) else ():
            if name == row["model"] or pattern.fullmatch(str(name)):
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
        The field, and a note, with what is left out of the model.

    Raises
    ------
    ScenarioError
        When nobody says which model, nobody gives its dimensions, or it is not modelled.

    Examples
    --------
    >>> choose_model("NousResearch/Llama-2-7b-hf", "a.yml", None, Path())
    ('llama-2-7b', 'model: llama-2-7b has the dimensions of NousResearch/Llama-2-7b-hf, which a.yml names')
    """
    from simgpu.workload.bundled import bundled_models

    if answer is not None:
        found = known_model(answer, Path())
        row = None if found else _listed(answer)
        sizes = _sizes(row)
        if sizes is not None:
            return sizes, f"model: dimensions of {answer}{_left_out(answer)}"
        if found is None:
            issue = Issue(
                field="--model", value=answer, problem=_not_modelled(row) or "is neither bundled nor a config.json",
                allowed=f"the path of a config.json, or {', '.join(bundled_models())}",
                fix=did_you_mean(answer, bundled_models()),
            )  # fmt: skip
            raise ScenarioError([issue])
        replaced = isinstance(named, str) and known_model(named, folder) != found
        given = f"model: {answer}, given for {named}, which {source} names" if replaced else f"model: {answer}"
        said = "" if found.endswith(".json") or found == answer.lower() else _left_out(answer)
        return found, f"{given}{said}" if replaced or said else None
    if isinstance(named, Mapping):
        return dict(named), None
    if named is None:
        problem, fix = (
            "is missing: no file says which model is trained",
            "add --model NAME, or its config.json as a file",
        )
        raise ScenarioError([Issue(field="model", problem=problem, fix=fix)])
    found = known_model(str(named), folder)
    row = None if found else _listed(str(named))
    sizes = _sizes(row)
    if sizes is not None:
        return sizes, f"model: dimensions of {named}, which {source} names{_left_out(named)}"
    if found is None:
        reason = _not_modelled(row)
        problem = reason or "is named, and no file gives its dimensions"
        fix = "give a model of the same size by --model" if reason else "add --model PATH of its config.json"
        raise ScenarioError([Issue(field="model", value=str(named), problem=problem, fix=fix, file=source)])
    if found == named:
        return found, None
    said = _left_out(named) if not found.endswith(".json") else ""
    return found, f"model: {Path(found).name} has the dimensions of {named}, which {source} names{said}"
