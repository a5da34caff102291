"""Runs that were measured, predicted: ``simgpu validate``."""

from __future__ import annotations

from simgpu.validation.run import ValidationWatch, read_runs, validate, validate_runs

__all__ = ["ValidationWatch", "read_runs", "validate", "validate_runs"]
