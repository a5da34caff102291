"""Scenarios: from YAML to checked, typed cases. The only package that knows pydantic."""

from simgpu.config.case import Case, Scenario
from simgpu.config.load import load_cases, load_scenario

__all__ = ["Case", "Scenario", "load_cases", "load_scenario"]
