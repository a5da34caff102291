"""The table of real files and what importing each gives; `python -m tests.imports.outcomes` writes it anew.

The first columns ask: the file, files that belong to it, --model, --topology, --gpus, --set (; between several). The
last two answer: `scenario` with what it says in short, or `refused` with the reason; of measurements `overrides` (NCCL),
`step log`, `op table` or `step` (a trace without shapes of ops), with their figures.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.errors import SimGPUError
from tests.imports.measured_outcomes import READERS

HERE = Path(__file__).parent
TABLE = HERE / "outcomes.csv"
INPUTS = HERE.parents[2] / "shared" / "inputs"
COLUMNS = ("folder", "file", "with", "model", "topology", "gpus", "set", "outcome", "says")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    cells: dict[str, str]

    @property
    def label(self) -> str:
        return f"{self.cells['folder']}/{self.cells['file']}"

    @property
    def paths(self) -> list[Path]:
        others = [INPUTS / name for name in self.cells["with"].split(";") if name]
        return [INPUTS / self.cells["folder"] / self.cells["file"], *others]

    def run(self) -> ImportedRun:
        """Import the row's files, with what the row gives beside them."""
        model = self.cells["model"]
        fixture = HERE / "models" / f"{model}.json"
        answers = RunAnswers(
            model=(str(fixture) if fixture.exists() else model) or None,
            topology=self.cells["topology"] or None,
            gpus=int(self.cells["gpus"]) if self.cells["gpus"] else None,
            settings=tuple(text for text in self.cells["set"].split(";") if text),
        )
        return import_run(self.paths, answers)

    def outcome(self) -> tuple[str, str]:
        """Return `scenario` and what it says, or `refused` and why; of measurements what they give."""
        try:
            if self.cells["folder"] in READERS and not self.cells["model"]:
                return READERS[self.cells["folder"]](INPUTS / self.cells["folder"] / self.cells["file"])
            return "scenario", summary(self.run().data)
        except SimGPUError as error:
            text = str(error).removeprefix(f"{INPUTS / self.cells['folder']}/")
            return "refused", " | ".join(text.splitlines())


def rows() -> list[Row]:
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return [Row(cells=cells) for cells in csv.DictReader(stream)]


def summary(data: dict[str, Any]) -> str:
    """Write what decides time and memory in one line."""
    model, cluster, training = data["model"], data["cluster"], data["training"]
    if isinstance(model, dict):
        name = model.get("base", f"{model.get('layers')} layers of {model.get('hidden')}")
        name = f"{Path(str(name)).stem} changed" if "base" in model else name
    else:
        name = Path(model).stem if model.endswith(".json") else model
    parallel = data.get("parallel", {})
    degrees = [f"{axis} {parallel[axis]}" for axis in ("tp", "pp", "cp", "ep") if axis in parallel]
    batch = f"{training['micro_batch_size']} x {training['gradient_accumulation']}"
    parts = [
        name,
        f"{cluster['gpus']} GPUs" + (f" on {cluster['nodes']} nodes" if "nodes" in cluster else ""),
        *degrees,
        parallel.get("data_parallel", "no replicas"),
        f"{batch} sequences of {training['sequence_length']}" if "sequence_length" in training else f"{batch} images",
        training["precision"],
        *([f"recompute {training['recompute']}"] if "recompute" in training else []),
        *([f"LoRA {training['lora']['rank']}"] if "lora" in training else []),
        *[f"{key} {block[key]['device']}" for block in [data.get("zero", {})] for key in block if "offload" in key],
        *(["cpu_offload"] if data.get("fsdp", {}).get("cpu_offload") else []),
    ]
    return ", ".join(parts)


def write() -> None:
    """Try every row and write its outcome."""
    answered = []
    for row in rows():
        outcome, says = row.outcome()
        answered.append({**row.cells, "outcome": outcome, "says": says})
    with TABLE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(answered)


if __name__ == "__main__":
    if not INPUTS.is_dir():
        sys.exit(f"there is no {INPUTS}")
    write()
