"""Cluster, model, training and strategy to a Program, priced."""

from simgpu.lower.lowering import lower

__all__ = ["lower"]
