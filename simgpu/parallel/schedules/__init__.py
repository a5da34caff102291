"""Pipeline schedules by the ecosystem's names, as scenarios spell them in lower case.

Add one: a file with a function ``(ranks, virtual, microbatches) -> PipelineSchedule`` and a line in
``PIPELINE_SCHEDULES``.
"""

from simgpu.parallel.schedules.action import Action, Row, Slot, parse_slot, slot_text
from simgpu.parallel.schedules.catalogue import (
    PIPELINE_SCHEDULES,
    build_schedule,
    global_stages,
    refusal,
    schedule_name,
)
from simgpu.parallel.schedules.table import PipelineSchedule

__all__ = [
    "PIPELINE_SCHEDULES", "Action", "PipelineSchedule", "Row", "Slot", "build_schedule", "global_stages", "parse_slot",
    "refusal", "schedule_name", "slot_text",
]  # fmt: skip
