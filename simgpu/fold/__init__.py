"""Prove which ranks are alike and keep one of each."""

from simgpu.fold.quotient import fold

__all__ = ["fold"]
