"""The formats in which launch files are written: one line per format.

Add one: a module with ``write_<format>(job, head) -> files``, and a line in ``FORMATS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from simgpu.io.launch.accelerate import write_accelerate
from simgpu.io.launch.deepspeed import write_deepspeed
from simgpu.io.launch.job import Files, Job
from simgpu.io.launch.megatron import write_megatron
from simgpu.io.launch.torchrun import write_torchrun
from simgpu.io.launch.torchtitan import write_torchtitan

Writer = Callable[[Job, tuple[str, ...]], Files]
FORMATS: Final[Mapping[str, Writer]] = {
    "deepspeed": write_deepspeed,
    "accelerate": write_accelerate,
    "torchrun": write_torchrun,
    "megatron": write_megatron,
    "torchtitan": write_torchtitan,
}
"""Writers by the name that the command line gives; each raises ScenarioError for what it cannot say."""
PROGRAMS: Final[Mapping[str, str]] = {
    "deepspeed": "DeepSpeed under Transformers' Trainer",
    "accelerate": "Accelerate and Transformers' Trainer",
    "torchrun": "Transformers' Trainer",
    "megatron": "Megatron-LM",
    "torchtitan": "torchtitan",
}
"""What each is called in a sentence."""
