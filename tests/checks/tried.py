"""What a tried row may use: the command line, a folder of its own, cases and traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simgpu.config import load_cases
from simgpu.io.kineto_reader import read_kineto
from simgpu.metrics.trace_report import TraceReport, report_traces

SCENARIO: dict[str, Any] = {
    "model": "gpt2",
    "cluster": {"topology": "dgx-a100", "gpus": 4},
    "training": {"sequence_length": 1024, "micro_batch_size": 8, "gradient_accumulation": 2},
    "parallel": {"data_parallel": "ddp"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What a row may use: the command line, and a folder of its own."""

    simgpu: Callable[..., Any]
    folder: Path

    def refused(self, *words: object) -> str:
        """Run a command that is refused: exit code 2, a message, nothing printed and nothing written."""
        before = {path.name for path in self.folder.iterdir()}
        outcome = self.simgpu(*words)
        assert outcome.code == 2, outcome
        assert "Traceback" not in outcome.err
        assert {path.name for path in self.folder.iterdir()} == before
        return str(outcome.err)

    def written(self, name: str, content: object) -> Path:
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def trace(self, events: list[Any], name: str = "t.json", **header: Any) -> TraceReport:
        return report_traces([read_kineto(self.written(name, {**header, "traceEvents": events}))])


def case(**blocks: Any) -> Any:
    merged = {key: {**SCENARIO.get(key, {}), **block} for key, block in blocks.items() if isinstance(block, dict)}
    (found,) = load_cases({**SCENARIO, **blocks, **merged})
    return found
