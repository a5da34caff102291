"""SimGPU: play a multi-GPU training step and see where every nanosecond goes.

>>> import simgpu
>>> report = simgpu.run("pipeline_ideal")[0]
>>> f"{report.bubble_fraction:.4f}"
'0.1579'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Case": "simgpu.config.case",
    "DeadlockError": "simgpu.errors",
    "ModelError": "simgpu.errors",
    "Program": "simgpu.program",
    "ProgramError": "simgpu.errors",
    "Report": "simgpu.metrics.report",
    "Scenario": "simgpu.config.case",
    "ScenarioError": "simgpu.errors",
    "SimGPUError": "simgpu.errors",
    "Timeline": "simgpu.timeline",
    "TopologyError": "simgpu.errors",
    "collective": "simgpu.api",
    "collective_table": "simgpu.api",
    "compare": "simgpu.metrics.comparison",
    "explore": "simgpu.explorer",
    "gantt": "simgpu.view.gantt",
    "load_scenario": "simgpu.config",
    "one_op": "simgpu.pricing",
    "op_table": "simgpu.pricing",
    "ops": "simgpu.pricing",
    "play_case": "simgpu.api",
    "run": "simgpu.api",
    "runs_to_json": "simgpu.metrics.json_report",
    "search": "simgpu.searches",
    "simulate": "simgpu.api",
    "sweep": "simgpu.sweeps",
    "validate": "simgpu.validation",
    "what_if": "simgpu.what_ifs",
    "write_html": "simgpu.view.report",
}

__all__ = [
    "Case",
    "DeadlockError",
    "ModelError",
    "Program",
    "ProgramError",
    "Report",
    "Scenario",
    "ScenarioError",
    "SimGPUError",
    "Timeline",
    "TopologyError",
    "collective",
    "collective_table",
    "compare",
    "explore",
    "gantt",
    "load_scenario",
    "one_op",
    "op_table",
    "ops",
    "play_case",
    "run",
    "runs_to_json",
    "search",
    "simulate",
    "sweep",
    "validate",
    "what_if",
    "write_html",
]

if TYPE_CHECKING:
    from simgpu.api import collective, collective_table, play_case, run, simulate
    from simgpu.config import load_scenario
    from simgpu.config.case import Case, Scenario
    from simgpu.errors import DeadlockError, ModelError, ProgramError, ScenarioError, SimGPUError, TopologyError
    from simgpu.explorer import explore
    from simgpu.metrics.comparison import compare
    from simgpu.metrics.json_report import runs_to_json
    from simgpu.metrics.report import Report
    from simgpu.pricing import one_op, op_table, ops
    from simgpu.program import Program
    from simgpu.searches import search
    from simgpu.sweeps import sweep
    from simgpu.timeline import Timeline
    from simgpu.validation import validate
    from simgpu.view.gantt import gantt
    from simgpu.view.report import write_html
    from simgpu.what_ifs import what_if


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that ``import simgpu`` stays light."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'simgpu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
