"""The plain data of one case, as a scenario file of its own would hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simgpu.config.draft import Draft
from simgpu.config.load import open_source
from simgpu.config.lookup import find_file
from simgpu.config.settings import apply_settings, parse_overrides, variant_settings
from simgpu.io.user_path import is_readable, user_path

_OF_THE_FILE: Final = ("name", "variants", "sweep", "search", "measured", "$schema")
_PATHS: Final = (("model",), ("model", "base"), ("parallel", "schedule"), ("costs", "table"))
"""Fields that may hold a path, beside the topology."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSource:
    """Where an export starts.

    Parameters
    ----------
    title : str
        Of the scenario and its case.
    data : dict
        Fields of the case, paths absolute.
    """

    title: str
    data: dict[str, Any]

    def get(self, *path: str) -> Any:
        """Return the value of a field, or None."""
        return Draft(data=self.data, source="").get(path)


def export_source(scenario: str, case: str, overrides: Sequence[str] = ()) -> ExportSource:
    """Read a scenario that loads without issues, and put one of its variants on top.

    Parameters
    ----------
    scenario : str
        File, or the name of a bundled one.
    case : str
        Name of the variant; of the scenario where it has none.
    overrides : sequence of str
        ``a.b=value`` settings.

    Returns
    -------
    ExportSource

    Raises
    ------
    ScenarioError
        When the file cannot be read.

    Examples
    --------
    >>> found = export_source("four_vs_eight", "4 GPUs")
    >>> found.title, found.get("cluster", "gpus"), found.get("variants")
    ('Llama-2-7B, four cards against eight: 4 GPUs', 4, None)
    """
    file, path = open_source(scenario)
    draft = Draft.of(file)
    apply_settings(draft, parse_overrides(overrides))
    variants = draft.data.get("variants") or []
    name = str(draft.data.get("name") or Path(scenario).stem)
    base = draft.copy()
    for field in _OF_THE_FILE:
        base.data.pop(field, None)
    for index, variant in enumerate(variants):
        if variant.get("name") == case:
            apply_settings(base, variant_settings(draft, index, variant.get("set") or {})[0])
            break
    folder = path.parent if path is not None else Path()
    data = base.data
    topology = find_file(str(data["cluster"]["topology"]), "topologies", folder=folder)
    bundled = topology is None or topology.stem == data["cluster"]["topology"]
    if not bundled and topology is not None:
        data["cluster"]["topology"] = str(topology.absolute())
    for where in _PATHS:
        value = base.get(where)
        beside = folder / user_path(value) if isinstance(value, str) and value else None
        if beside is not None and (is_readable(beside) or is_readable(beside / "config.json")):
            base.set(where, str(beside.absolute()), base.place(where))
    return ExportSource(title=name if case == name else f"{name}: {case}", data=data)
