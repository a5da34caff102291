"""Checks a draft against the schema: every wrong, unknown or absent field, in the user's words."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from simgpu.config import foreign_names
from simgpu.config.batch_names import BATCH_NAMES
from simgpu.config.block import Block
from simgpu.config.draft import show
from simgpu.config.findings import Findings
from simgpu.config.model_block import InlineModel, SyntheticBlock, model_block
from simgpu.config.near import did_you_mean, near_names
from simgpu.config.scenario_block import ScenarioBlock, VariantBlock
from simgpu.config.unknown_field import fields_at, foreign_name, no_mapping_hint, unknown_field_hint
from simgpu.errors import Issue
from simgpu.io.yaml_file import FieldPath
from simgpu.units import QuantityError

_LISTS: Final[Mapping[FieldPath, str]] = {
    ("perturb", "links"): 'a list such as [{link: "node0/nic0<->pod0/leaf0", share: 0.5}]',
}
_SAME: Final[Mapping[FieldPath, FieldPath]] = {
    ("training", name): ("training", own) for name, own in BATCH_NAMES.items()
}
_SECTIONS: Final = ("cluster", "training", "parallel", "ddp", "zero", "fsdp", "distributed_optimizer")
_MODEL_FIX: Final = "set model to a bundled name such as llama-2-7b, or to the path of a config.json"
_INLINE_EXAMPLE: Final = "{layers: 32, hidden: 4096, heads: 32, ffn: 11008, vocab: 32000}"
_SYNTHETIC_EXAMPLE: Final = "{stages: 4, forward_ns: 1 ms, backward_ns: 2 ms}"


def check_structure(findings: Findings) -> ScenarioBlock | None:
    """Validate the draft, noting every error.

    Unknown and wrong fields are left out of the result, so that later checks can still speak about the others; they
    ask `Findings.sound` before they use one.

    Parameters
    ----------
    findings : Findings
        Its draft is read, not changed.

    Returns
    -------
    ScenarioBlock or None
        None when not even a partial scenario could be made.

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> findings = Findings(draft=Draft(data={"model": "gpt2", "cluster": {"topology": "x"}, "training": {},
    ...                                       "parallel": {"tensor_parallel": 2}}, source="s.yaml"))
    >>> check_structure(findings).parallel.tp
    1
    >>> print(findings.issues[0])
    s.yaml: parallel.tensor_parallel = 2: is not a field of SimGPU; fix: use parallel.tp
    """
    data = copy.deepcopy(findings.draft.data)
    for section in _SECTIONS:
        if section in data and data[section] is None:
            data[section] = {}  # a block whose lines are all commented out
    for path in list(_empty_fields(data, ())):
        issue = findings.draft.issue(path, "is empty", fix="write a value, or delete the line to take the default")
        findings.note(path, issue)
        _remove(data, path)
    scenario, details = None, list[ErrorDetails]()
    try:
        scenario = ScenarioBlock.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False)
    # Unknown fields first: the field that was meant is then not called missing as well.
    for detail in sorted(details, key=lambda detail: detail["type"] != "extra_forbidden"):
        if not _is_model_field_missing(detail):
            _note(detail, data, findings)
    _note_missing_model_fields([str(d["loc"][-1]) for d in details if _is_model_field_missing(d)], data, findings)
    if scenario is not None:
        return scenario
    for detail in sorted(details, key=lambda detail: len(detail["loc"]), reverse=True):
        _remove(data, _path(detail, data))
    for name in ("model", "cluster", "training"):
        # What is absent gets a stand-in that no later check uses: the field is marked as bad.
        data.setdefault(name, {"topology": ""} if name == "cluster" else {} if name == "training" else "absent")
    if "topology" not in data["cluster"]:
        data["cluster"]["topology"] = "absent"
    try:
        return ScenarioBlock.model_validate(data)
    except ValidationError:
        return None


class _Variants(Block):
    variants: list[VariantBlock] = Field(default_factory=list)


def check_variants(findings: Findings) -> list[tuple[int, VariantBlock]]:
    """Validate the list of variants, noting every error.

    Parameters
    ----------
    findings : Findings
        Its draft is the whole file.

    Returns
    -------
    list of (index in the file, VariantBlock)
        Those that are sound.

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> findings = Findings(draft=Draft(data={"variants": [{"name": "a"}, {"nmae": "b"}]}, source="s.yaml"))
    >>> [variant.name for _, variant in check_variants(findings)]
    ['a']
    >>> [issue.field for issue in findings.issues]
    ['variants[1].nmae']
    """
    raw = findings.draft.data.get("variants")
    if raw is None:
        return []
    if raw == []:
        findings.add("variants", "is an empty list", fix="add a variant, or leave variants out")
    details: list[ErrorDetails] = []
    try:
        _Variants.model_validate({"variants": raw})
    except ValidationError as error:
        details = error.errors(include_url=False)
    for detail in sorted(details, key=lambda detail: detail["type"] != "extra_forbidden"):
        _note(detail, findings.draft.data, findings)
    wrong = {detail["loc"][1] for detail in details if len(detail["loc"]) > 1}
    if not isinstance(raw, list):
        return []
    result, first = [], dict[str, int]()
    for index, entry in enumerate(raw):
        if index in wrong:
            continue
        variant = VariantBlock.model_validate(entry)
        path: FieldPath = ("variants", index, "name")
        if variant.name in first:
            problem = f"is the name of variant {first[variant.name] + 1} as well"
            findings.note(path, findings.draft.issue(path, problem, value=variant.name, fix="name them apart"))
            continue
        first[variant.name] = index
        result.append((index, variant))
    return result


def _is_model_field_missing(detail: ErrorDetails) -> bool:
    return detail["type"] == "missing" and detail["loc"][0] == "model" and len(detail["loc"]) > 1


def _note_missing_model_fields(names: list[str], data: Any, findings: Findings) -> None:
    """Say in one sentence which fields a model lacks, ffn included: whether it is needed depends on another field."""
    model = data.get("model")
    if not isinstance(model, dict):
        return
    block = model_block(model)
    gated = str(model.get("mlp", "swiglu")).lower() in ("swiglu", "geglu")
    needs_ffn = block is InlineModel and gated and "ffn" not in model and "experts" not in model
    names = [name for name in (*names, *(["ffn"] if needs_ffn else [])) if ("model", name) not in findings.bad]
    if not names:
        return
    path: FieldPath = ("model", names[0]) if len(names) == 1 else ("model",)
    problem = "is missing" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are missing"
    example = _SYNTHETIC_EXAMPLE if block is SyntheticBlock else _INLINE_EXAMPLE
    fix = f"add {'it' if len(names) == 1 else 'them'}, as in {example}"
    findings.note(path, findings.draft.issue(path, problem, fix=fix))


def _empty_fields(value: Any, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if path == ("variants",) or (*path, key) == ("sweep",):
                continue
            if inner is None:
                yield (*path, key)
            else:
                yield from _empty_fields(inner, (*path, key))


def _path(detail: ErrorDetails, data: Any) -> FieldPath:
    """Return pydantic's location without the tags of unions (``<inline>``)."""
    return tuple(part for part in detail["loc"] if not (isinstance(part, str) and part.startswith("<")))


def _remove(data: Any, path: FieldPath) -> None:
    here = data
    for part in path[:-1]:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(here, dict):
        here.pop(path[-1], None)
    elif isinstance(here, list) and len(path) > 1:
        _remove(data, path[:-1])  # half a list means nothing


def _note(detail: ErrorDetails, data: Any, findings: Findings) -> None:
    path = _path(detail, data)
    kind = detail["type"]
    draft = findings.draft
    if kind == "missing":
        if path in findings.bad:
            return
        fix = _MODEL_FIX if path == ("model",) else f"add {path[-1]}"
        if path == ("cluster", "topology"):
            fix = "add topology, a bundled name such as dgx-a100 or the path of a topology file"
        findings.note(path, draft.issue(path, "is missing", fix=fix))
        return
    value = detail["input"]
    if kind == "extra_forbidden" and path in _SAME:
        findings.note(path, _two_names(path, value, findings))
        return
    if kind == "extra_forbidden":
        findings.note(
            path, draft.issue(path, "is not a field of SimGPU", value=value, **unknown_field_hint(path, value, data))
        )
        findings.bad += [(*path[:-1], near) for near in near_names(str(path[-1]), fields_at(path[:-1], data))]
        foreign = foreign_name(path)
        if foreign is not None:
            findings.bad.append(tuple(re.split(r"[ :]", foreign)[0].split(".")))
        return
    if kind == "value_error":
        error = detail["ctx"]["error"]
        if isinstance(error, QuantityError):
            issue = draft.issue(path, error.problem, value=value, allowed=error.allowed, fix=error.fix or None)
        else:
            issue = draft.issue(path, str(error), value=value)
    elif kind == "literal_error":
        listed = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
        word = foreign_names.WORDS.get(str(value).lower())
        hint = f"use {word}" if word else did_you_mean(str(value), listed)
        issue = draft.issue(path, "is not known", value=value, allowed=", ".join(listed), fix=hint)
    elif kind in ("model_type", "model_attributes_type", "dict_type"):
        issue = draft.issue(path, "is not a mapping of fields", value=value, fix=no_mapping_hint(path, value))
    elif kind == "list_type":
        issue = draft.issue(path, "is not a list", value=value, allowed=_LISTS.get(path, "a list such as [8, 8]"))
    else:
        issue = draft.issue(path, detail["msg"], value=value)
    findings.note(path, issue)


def _two_names(path: FieldPath, value: object, findings: Findings) -> Issue:
    """Refuse a second value of a number that has a name of another tool as well."""
    draft, own = findings.draft, _SAME[path]
    findings.bad.append(own)
    other = draft.name(own)
    problem = f"is another name of {other}, which is given as {show(draft.get(own))}"
    return draft.issue(path, problem, value=value, fix=f"leave {path[-1]} or {other} out")
