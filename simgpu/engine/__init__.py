"""The only SimPy user: plays a Program and returns a Timeline."""

from simgpu.engine.play import play

__all__ = ["play"]
