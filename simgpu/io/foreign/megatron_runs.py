"""Tables of Megatron runs in CSV, one run a row: degrees, batch, layers and width.

They say what differs between runs; the arguments that all have in common are another file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.reading import Reading
from simgpu.io.text_file import read_text

KIND: Final = "megatron-runs"
_COLUMNS: Final = {
    "tp": ("tensor", "tp", "tensor_model_parallel_size"),
    "pp": ("pipeline", "pp", "pipeline_model_parallel_size"),
    "micro": ("micro_batch", "micro_batch_size", "mbs"),
    "total": ("global_batch", "global_batch_size", "gbs"),
    "layers": ("layers", "num_layers"),
    "hidden": ("hidden", "hidden_size"),
    "heads": ("heads", "num_attention_heads"),
}
"""What every row has, and the columns that hold it."""
_NODES: Final = "nodes_of_8"
_GPUS: Final = ("gpus", "world_size")
_INTERLEAVE: Final = ("interleave_layers_per_virtual_stage", "num_layers_per_virtual_pipeline_stage")
_RECOMPUTE: Final = ("recompute", "checkpoint_activations")
_NAMES: Final = ("experiment", "name", "case")


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a text is such a table.

    Examples
    --------
    >>> recognise(Path("runs.csv"), "tensor,pipeline,micro_batch,global_batch,layers,hidden,heads,gpus\n")
    True
    """
    if path.suffix.lower() != ".csv":
        return False
    header = next(csv.reader(io.StringIO(text)), [])
    return all(any(name in header for name in names) for names in _COLUMNS.values())


def read_megatron_runs(path: Path) -> Reading:
    r"""Read a table: the first row is the scenario, and every row a variant of it.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        Naming the line and column of what is no whole number, or does not fit.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "runs.csv"
    ...     _ = path.write_text("case,tp,pp,mbs,gbs,layers,hidden,heads,nodes_of_8,recompute\n"
    ...                         "a,8,1,1,8,3,20480,128,1,yes\nb,8,2,1,8,6,20480,128,2,yes\n")
    ...     reading = read_megatron_runs(path)
    >>> reading.gpus, reading.settings["parallel.tp"], reading.settings["variants"][1]["set"]["parallel.pp"]
    (8, 8, 2)
    """
    rows = list(csv.DictReader(io.StringIO(read_text(path, str(path)))))
    if not rows:
        raise ScenarioError([Issue(field="", problem="has no runs", file=path.name)])
    runs = [_run(row, path.name, line) for line, row in enumerate(rows, start=2)]
    names = [_name(row, line) for line, row in enumerate(rows, start=2)]
    first = {field: value for field, value in runs[0].items() if value is not None}
    gpus = first.pop("cluster.gpus")
    variants = [{"name": name, "set": run} for name, run in zip(names, runs, strict=True)]
    return Reading(
        source=path.name,
        kind=KIND,
        settings={**first, "variants": variants},
        gpus=gpus,
        used=tuple(rows[0]),
        notes=("the first run of the table is the scenario, and every run a variant",),
    )


def _run(row: Mapping[str, str], source: str, line: int) -> dict[str, Any]:
    found = {name: _whole(row, names, source, line) for name, names in _COLUMNS.items()}
    numbers = {name: value for name, value in found.items() if value is not None}
    if len(numbers) < len(_COLUMNS):
        missing = next(name for name in found if found[name] is None)
        raise _refused(source, line, _COLUMNS[missing][0], "is empty")
    nodes = _whole(row, (_NODES,), source, line)
    gpus = _whole(row, _GPUS, source, line) or (8 * nodes if nodes else None)
    size = numbers["tp"] * numbers["pp"]
    if gpus is None or gpus % size:
        raise _refused(source, line, _NODES, f"makes {gpus} GPUs, no whole number of replicas of {size}")
    dp, chunk = gpus // size, _whole(row, _INTERLEAVE, source, line)
    steps, rest = divmod(numbers["total"], numbers["micro"] * dp)
    if rest or not steps:
        problem = f"is not divided by micro-batch x data-parallel ranks = {numbers['micro']} x {dp}"
        raise _refused(source, line, "global_batch", problem)
    virtual = None
    if chunk is not None:
        virtual, rest = divmod(numbers["layers"], numbers["pp"] * chunk)
        if rest:
            problem = f"does not divide {numbers['layers']} layers over {numbers['pp']} pipeline ranks"
            raise _refused(source, line, _INTERLEAVE[0], problem)
    words = next((row[name].strip().lower() for name in _RECOMPUTE if row.get(name)), "")
    return {
        "model.layers": numbers["layers"],
        "model.hidden": numbers["hidden"],
        "model.heads": numbers["heads"],
        "cluster.gpus": gpus,
        "cluster.nodes": nodes or -(-gpus // 8),
        "training.micro_batch_size": numbers["micro"],
        "training.gradient_accumulation": steps,
        "training.recompute": {"yes": "full", "no": "none"}.get(words, words or None),
        "parallel.tp": numbers["tp"],
        "parallel.pp": numbers["pp"],
        "parallel.virtual_stages": virtual if virtual is not None and virtual > 1 else None,
    }


def _whole(row: Mapping[str, str], names: tuple[str, ...], source: str, line: int) -> int | None:
    for name in names:
        text = (row.get(name) or "").strip()
        if text:
            if re.fullmatch(r"0*[1-9]\d{0,17}", text) is None:
                raise _refused(source, line, name, f"is no whole number of at least 1: {text}")
            return int(text)
    return None


def _name(row: Mapping[str, str], line: int) -> str:
    words = " ".join(row[name] for name in _NAMES if row.get(name))
    return f"{words} ({line})" if words else f"line {line}"


def _refused(source: str, line: int, field: str, problem: str) -> ScenarioError:
    return ScenarioError([Issue(field=field, problem=problem, file=source, line=line)])
