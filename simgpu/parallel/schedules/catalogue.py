"""The pipeline schedules by name, and what each of them accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isqrt
from types import MappingProxyType
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.parallel.schedules.dualpipe import dualpipe_schedule, refuse_odd
from simgpu.parallel.schedules.dualpipev import dualpipev_schedule, refuse_few_microbatches
from simgpu.parallel.schedules.gpipe import gpipe_schedule
from simgpu.parallel.schedules.hanayo import hanayo_schedule
from simgpu.parallel.schedules.interleaved import interleaved_schedule, refuse_uneven_rounds
from simgpu.parallel.schedules.interleaved_zero_bubble import interleaved_zero_bubble_schedule
from simgpu.parallel.schedules.looped_bfs import looped_bfs_schedule
from simgpu.parallel.schedules.one_f_one_b import one_f_one_b_schedule
from simgpu.parallel.schedules.repeated import repeated
from simgpu.parallel.schedules.table import PipelineSchedule
from simgpu.parallel.schedules.timed_zero_bubble import zb2p_schedule
from simgpu.parallel.schedules.zbv import zbv_schedule
from simgpu.parallel.schedules.zero_bubble import zbh1_schedule, zbh2_schedule

LARGEST_TABLE: Final = 300_000
"""Ranks x (forwards of each + ranks, the ramp): beyond any run, and still drawn in seconds."""

_RUN: Final = "pipeline_microbatches"
_MOST_TRIED: Final = 10_000
_MOST_NAMED: Final = 16

ONE: Final = "1"
TWO: Final = "2"
EVEN: Final = "an even number"
ANY: Final = "1 or more"

_CHUNKS: Final[Mapping[str, Callable[[int], bool]]] = {
    ONE: lambda chunks: chunks == 1,
    TWO: lambda chunks: chunks == 2,
    EVEN: lambda chunks: chunks % 2 == 0,
    ANY: lambda _: True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleKind:
    """A pipeline schedule that can be built.

    Parameters
    ----------
    build : callable of ranks, virtual, microbatches to PipelineSchedule
    virtual : str
        Stages per rank that it takes: ``ONE``, ``TWO``, ``EVEN`` or ``ANY``.
    refuse : callable of ranks, virtual, microbatches to Issue or None
        What else the framework requires.
    aliases : tuple of str
        Other names, as ``plain_name`` leaves them.
    copies : int
        Ranks that hold each stage.
    """

    build: Callable[[int, int, int], PipelineSchedule]
    virtual: str
    refuse: Callable[[int, int, int], Issue | None] = lambda *_: None
    aliases: tuple[str, ...] = ()
    copies: int = 1

    @property
    def default_virtual(self) -> int:
        """Stages per rank when nothing is said."""
        return 1 if self.virtual == ONE else 2


PIPELINE_SCHEDULES: Final[Mapping[str, ScheduleKind]] = MappingProxyType(
    {
        "gpipe": ScheduleKind(build=gpipe_schedule, virtual=ONE),
        "1f1b": ScheduleKind(build=one_f_one_b_schedule, virtual=ONE, aliases=("pipedreamflush",)),
        "interleaved_1f1b": ScheduleKind(
            build=interleaved_schedule, virtual=ANY, refuse=refuse_uneven_rounds, aliases=("interleaved",)
        ),
        "looped_bfs": ScheduleKind(build=looped_bfs_schedule, virtual=ANY),
        "zbh1": ScheduleKind(build=zbh1_schedule, virtual=ONE, aliases=("zb1p",)),
        "zbh2": ScheduleKind(build=zbh2_schedule, virtual=ONE),
        "zb2p": ScheduleKind(build=zb2p_schedule, virtual=ONE),
        "interleaved_zero_bubble": ScheduleKind(
            build=interleaved_zero_bubble_schedule, virtual=ANY, refuse=refuse_uneven_rounds
        ),
        "zbv": ScheduleKind(build=zbv_schedule, virtual=TWO, aliases=("zbvzerobubble",)),
        "dualpipev": ScheduleKind(build=dualpipev_schedule, virtual=TWO, refuse=refuse_few_microbatches),
        "dualpipe": ScheduleKind(build=dualpipe_schedule, virtual=TWO, refuse=refuse_odd, copies=2),
        "hanayo": ScheduleKind(build=hanayo_schedule, virtual=EVEN),
    }
)


def plain_name(name: str) -> str:
    """Return a name without capitals, ``_``, ``-``, blanks and PyTorch's ``Schedule`` in front.

    Parameters
    ----------
    name : str

    Returns
    -------
    str

    Examples
    --------
    >>> plain_name("ScheduleZBVZeroBubble"), plain_name("ZB-H1")
    ('zbvzerobubble', 'zbh1')
    """
    return name.lower().translate(str.maketrans("", "", "_- ")).removeprefix("schedule")


_BY_PLAIN_NAME: Final[Mapping[str, str]] = {
    alias: name
    for name, kind in PIPELINE_SCHEDULES.items()
    for alias in (plain_name(name), *kind.aliases)
}  # fmt: skip


def schedule_name(name: str) -> str | None:
    """Return a schedule's name as scenarios spell it.

    Parameters
    ----------
    name : str
        In any case, or as a framework calls it.

    Returns
    -------
    str or None
        None when no schedule is called so.

    Examples
    --------
    >>> schedule_name("Interleaved1F1B"), schedule_name("ScheduleZBVZeroBubble"), schedule_name("zb1p")
    ('interleaved_1f1b', 'zbv', 'zbh1')
    """
    return _BY_PLAIN_NAME.get(plain_name(name))


def global_stages(name: str, *, ranks: int, virtual: int) -> int:
    """Return into how many stages a schedule divides the model.

    Parameters
    ----------
    name : str
        As ``schedule_name`` returns it.
    ranks, virtual : int
        Pipeline ranks, and stages on each.

    Returns
    -------
    int

    Examples
    --------
    >>> global_stages("zbv", ranks=4, virtual=2), global_stages("dualpipe", ranks=4, virtual=2)
    (8, 4)
    """
    return ranks * virtual // PIPELINE_SCHEDULES[name].copies


def refusal(
    name: str, *, ranks: int, virtual: int, microbatches: int, pipeline_microbatches: int | None = None
) -> Issue | None:
    """Say why a schedule cannot be made, in one issue about one of the numbers.

    Parameters
    ----------
    name : str
        As ``schedule_name`` returns it.
    ranks, virtual, microbatches : int
    pipeline_microbatches : int, optional
        Microbatches of one run of the pipeline; all of them when left out.

    Returns
    -------
    Issue or None

    Examples
    --------
    >>> print(refusal("zbv", ranks=4, virtual=3, microbatches=8))
    virtual = 3: is not what zbv takes; allowed: 2
    """
    kind = PIPELINE_SCHEDULES[name]
    for field, value in (("ranks", ranks), ("virtual", virtual), ("microbatches", microbatches)):
        if value < 1:
            return Issue(field=field, value=str(value), problem="is below 1", allowed="1 or more")
    if not _CHUNKS[kind.virtual](virtual):
        return Issue(field="virtual", value=str(virtual), problem=f"is not what {name} takes", allowed=kind.virtual)
    each = microbatches if pipeline_microbatches is None else pipeline_microbatches
    if each < 1 or microbatches % each:
        whole = "the micro-batch" if microbatches == 1 else f"the {microbatches} micro-batches"
        problem, allowed = f"does not divide {whole} of a step", _divisors(microbatches)
        return Issue(field=_RUN, value=str(each), problem=problem, allowed=allowed)
    refused = _too_large(ranks, virtual, microbatches) or kind.refuse(ranks, virtual, each)
    if refused is not None and refused.field == "microbatches" and each < microbatches:
        return replace(refused, field=_RUN) if refused.value == str(each) else refused
    return refused


def _divisors(number: int) -> str:
    """Name the divisors of a number, or what they are where there are many."""
    found = [divisor for divisor in range(1, min(number, _MOST_TRIED) + 1) if number % divisor == 0]
    return ", ".join(map(str, found)) if number <= _MOST_TRIED and len(found) <= _MOST_NAMED else "a divisor of it"


def _too_large(ranks: int, virtual: int, microbatches: int) -> Issue | None:
    """Say which number makes a table of ranks x (virtual x microbatches + ranks) slots too large."""
    forwards = "1 forward" if virtual * microbatches == 1 else f"{virtual * microbatches} forwards"
    problem = f"makes a table too large to draw: {ranks} ranks with {forwards} each"
    widest = isqrt(LARGEST_TABLE) - 1
    if ranks > widest:
        return Issue(field="ranks", value=str(ranks), problem=problem, allowed=f"1 to {widest}")
    most = LARGEST_TABLE // ranks - ranks
    if virtual > most:
        return Issue(field="virtual", value=str(virtual), problem=problem, allowed=f"1 to {most}")
    if virtual * microbatches > most:
        allowed = f"1 to {most // virtual}"
        return Issue(field="microbatches", value=str(microbatches), problem=problem, allowed=allowed)
    return None


def build_schedule(
    name: str,
    *,
    ranks: int,
    microbatches: int,
    virtual: int | None = None,
    pipeline_microbatches: int | None = None,
) -> PipelineSchedule:
    """Build a pipeline schedule.

    Parameters
    ----------
    name : str
        Any name that ``schedule_name`` knows.
    ranks : int
        Pipeline ranks p.
    microbatches : int
        Per step and pipeline.
    virtual : int, optional
        Stages per rank v; 1 when left out, or 2 where a schedule needs several.
    pipeline_microbatches : int, optional
        Of one run of the pipeline, which drains and fills again in between; all of the step when left out.

    Returns
    -------
    PipelineSchedule

    Raises
    ------
    ScenarioError
        With one issue, when there is no such schedule or its framework does not accept the numbers.

    Examples
    --------
    >>> build_schedule("Interleaved1F1B", ranks=4, virtual=2, microbatches=9)
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: microbatches = 9: is no multiple of its 2 rounds (microbatches // ranks), which \
PyTorch requires (Megatron requires a multiple of the 4 ranks); allowed: such as 8 or 10
    """
    known = schedule_name(name)
    if known is None:
        allowed = ", ".join(PIPELINE_SCHEDULES)
        raise ScenarioError([Issue(field="schedule", value=name, problem="is no pipeline schedule", allowed=allowed)])
    virtual = PIPELINE_SCHEDULES[known].default_virtual if virtual is None else virtual
    issue = refusal(
        known, ranks=ranks, virtual=virtual, microbatches=microbatches, pipeline_microbatches=pipeline_microbatches
    )
    if issue is not None:
        raise ScenarioError([issue])
    each = microbatches if pipeline_microbatches is None else pipeline_microbatches
    return repeated(PIPELINE_SCHEDULES[known].build(ranks, virtual, each), microbatches // each)
