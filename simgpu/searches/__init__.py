"""The fastest strategy that fits: bounds order the candidates, the simulator decides."""

from simgpu.searches.run import search

__all__ = ["search"]
