"""Which pipeline a scenario asks for: its schedule, by name or from a file, its ranks, and its stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simgpu.config.findings import Findings
from simgpu.config.parallel_block import ParallelBlock
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, PipelineSchedule, global_stages, refusal
from simgpu.parallel.strategy import Strategy

if TYPE_CHECKING:
    from simgpu.workload.synthetic import SyntheticModel

_PP, _VIRTUAL, _SCHEDULE = "parallel.pp", "parallel.virtual_stages", "parallel.schedule"
_FIELDS: Final[Mapping[str, str]] = {"ranks": _PP, "virtual": _VIRTUAL}
_RUN: Final = "parallel.pipeline_microbatches"
_ENOUGH: Final = 4  # micro-batches per rank that every schedule takes
_ACCUMULATION: Final = "training.gradient_accumulation"
_BATCH_FIELDS: Final = (_ACCUMULATION, "training.global_batch_size", "training.micro_batch_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineChoice:
    """A pipeline without its microbatches.

    Parameters
    ----------
    schedule : str
        A name of `PIPELINE_SCHEDULES`; for a table that of its file, which no schedule has.
    pp : int
        Pipeline ranks.
    virtual : int
        Stages on each.
    stages : int
        In all.
    table : PipelineSchedule or None
        From a file.
    """

    schedule: str
    pp: int
    virtual: int
    stages: int
    table: PipelineSchedule | None = None

    @property
    def stages_per_rank(self) -> int:
        """Stages of the model over ranks."""
        return max(1, self.stages // self.pp)


def choose_pipeline(
    parallel: ParallelBlock, synthetic: SyntheticModel | None, table: PipelineSchedule | None, findings: Findings
) -> PipelineChoice:
    """Complete the fields of a pipeline, and check them against each other.

    Parameters
    ----------
    parallel : ParallelBlock
    synthetic : SyntheticModel or None
        Its stages give what is left out.
    table : PipelineSchedule or None
        The file that ``parallel.schedule`` names.
    findings : Findings

    Returns
    -------
    PipelineChoice

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> findings = Findings(draft=Draft(data={}, source="s.yaml"))
    >>> choose_pipeline(ParallelBlock(pp=4, virtual_stages=2), None, None, findings)
    PipelineChoice(schedule='interleaved_1f1b', pp=4, virtual=2, stages=8, table=None)
    """
    if table is not None:
        return _from_table(parallel, table, findings)
    interleaved = parallel.virtual_stages is not None and parallel.virtual_stages > 1
    schedule = parallel.schedule or ("interleaved_1f1b" if interleaved else "1f1b")
    if schedule not in PIPELINE_SCHEDULES:  # a file that could not be read: findings say so
        schedule = "1f1b"
    kind = PIPELINE_SCHEDULES[schedule]
    virtual, pp = parallel.virtual_stages or kind.default_virtual, parallel.pp or 1
    if synthetic is not None:
        stages = synthetic.stages * kind.copies
        if parallel.pp is None:
            pp = max(1, stages // virtual)
        elif parallel.virtual_stages is None and stages % pp == 0 and _takes(schedule, pp, stages // pp):
            virtual = stages // pp
    if pp == 1:
        if interleaved and findings.sound(_PP, _VIRTUAL):
            problem = "has no pipeline to interleave: parallel.pp is 1"
            findings.add(_VIRTUAL, problem, allowed="1", fix="set parallel.pp, or leave virtual_stages out")
        alone = refusal(schedule, ranks=1, virtual=kind.default_virtual, microbatches=_ENOUGH)
        if alone is not None and alone.field == "ranks" and findings.sound(_PP, _SCHEDULE):
            problem = f"needs a pipeline: parallel.pp = 1 {alone.problem}"
            findings.add(_SCHEDULE, problem, fix="set parallel.pp, or leave parallel.schedule out")
        return PipelineChoice(schedule=schedule, pp=1, virtual=1, stages=1)
    if findings.sound(_PP, _VIRTUAL, _SCHEDULE):
        refused = refusal(schedule, ranks=pp, virtual=virtual, microbatches=_ENOUGH * pp)
        field = None if refused is None else _FIELDS.get(refused.field)
        if refused is not None and field is not None:
            fix = "leave virtual_stages out" if field == _VIRTUAL else refused.fix
            if schedule == "1f1b" and virtual > 1:
                fix = "set parallel.schedule to interleaved_1f1b"
            findings.add(field, refused.problem, allowed=refused.allowed, fix=fix)
    stages = global_stages(schedule, ranks=pp, virtual=virtual)
    return PipelineChoice(schedule=schedule, pp=pp, virtual=virtual, stages=max(1, stages))


def check_microbatches(strategy: Strategy, microbatches: int, findings: Findings) -> None:
    """Note why a schedule does not take as many microbatches as the batch makes.

    Parameters
    ----------
    strategy : Strategy
    microbatches : int
        Per step and pipeline.
    findings : Findings
    """
    if strategy.pp == 1:
        return
    field = next((name for name in _BATCH_FIELDS if findings.value(name) is not None), "training")
    table, each = strategy.table, strategy.pipeline_microbatches
    if table is not None:
        one_run = each or microbatches
        if one_run != table.microbatches:
            problem = f"makes {_micro_batches(one_run)}, and the schedule {table.name} is for {table.microbatches}"
            name = findings.draft.name(tuple(_ACCUMULATION.split(".")))
            where = f"training.{name}" if each is None else _RUN
            findings.add(field if each is None else _RUN, problem, fix=f"set {where} to {table.microbatches}")
        elif microbatches % one_run:
            problem = f"does not divide the {_micro_batches(microbatches)} of a step"
            findings.add(_RUN, problem, fix="let it divide training.gradient_accumulation, or leave it out")
        return
    refused = refusal(
        strategy.schedule,
        ranks=strategy.pp,
        virtual=strategy.virtual_stages,
        microbatches=microbatches,
        pipeline_microbatches=each,
    )
    if refused is not None:
        if refused.field == "pipeline_microbatches":
            fix = refused.fix or "let it divide training.gradient_accumulation, or leave it out"
            problem = refused.problem
            if each is not None and microbatches % each == 0:
                fix, problem = refused.fix or "", f"makes runs that {strategy.schedule} cannot have: {each} {problem}"
            findings.add(_RUN, problem, allowed=refused.allowed, fix=fix)
            return
        if refused.field != "microbatches":
            findings.add(_FIELDS[refused.field], refused.problem, allowed=refused.allowed, fix=refused.fix)
            return
        makes = f"makes {_micro_batches(microbatches)} a step for {strategy.schedule}"
        problem = f"{makes}, and {refused.value} {refused.problem}"
        findings.add(field, problem, allowed=_allowed(refused.allowed), fix=refused.fix)


def _allowed(number: str | None) -> str | None:
    """Say how many micro-batches a schedule takes: a number, or a kind of number."""
    return number and (f"{number} of micro-batches" if number.endswith("number") else f"{number} micro-batches")


def _micro_batches(number: int) -> str:
    return "1 micro-batch" if number == 1 else f"{number} micro-batches"


def _takes(schedule: str, pp: int, virtual: int) -> bool:
    return refusal(schedule, ranks=pp, virtual=virtual, microbatches=_ENOUGH * pp) is None


def _from_table(parallel: ParallelBlock, table: PipelineSchedule, findings: Findings) -> PipelineChoice:
    virtual = max(1, table.stages // table.ranks)
    for field, given, own in ((_PP, parallel.pp, table.ranks), (_VIRTUAL, parallel.virtual_stages, virtual)):
        if given is not None and given != own and findings.sound(field):
            what = "ranks" if field == _PP else "stages a rank"
            problem = f"is not the {own} {what} of the schedule {table.name}"
            findings.add(field, problem, allowed=str(own), fix="leave it out")
    return PipelineChoice(
        schedule=f"{table.name}.csv", pp=table.ranks, virtual=virtual, stages=table.stages, table=table
    )
