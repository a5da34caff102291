"""The only SimPy user: plays a Program and returns a Timeline."""

from simgpu.engine.collector import paused_collector
from simgpu.engine.play import play

__all__ = ["paused_collector", "play"]
