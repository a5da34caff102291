"""Usual levers, tried on runs that disappoint."""

from simgpu.advice.advise import advise_runs, disappointments

__all__ = ["advise_runs", "disappointments"]
