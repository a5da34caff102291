"""SimGPU: play a multi-GPU training step and see where every nanosecond goes."""

__version__ = "0.1.0"
