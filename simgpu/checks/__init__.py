"""A real step beside the predicted one."""

from simgpu.checks.other_device import other_device
from simgpu.checks.step_check import (
    Difference,
    Explained,
    StepCheck,
    check_step,
    check_to_json,
    check_traces,
)

__all__ = ["Difference", "Explained", "StepCheck", "check_step", "check_to_json", "check_traces", "other_device"]
