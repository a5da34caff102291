"""Sweeps: every point of a scenario's grid, simulated in parallel and kept as it ends."""

from __future__ import annotations

from simgpu.sweeps.run import sweep

__all__ = ["sweep"]
