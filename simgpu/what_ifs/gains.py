"""Plays a case again under changes and says what each gains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from simgpu.break_even import with_faster_links
from simgpu.config.case import Case
from simgpu.engine import play
from simgpu.errors import Issue, ScenarioError
from simgpu.fold import fold as fold_program
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.perturbation import perturbed
from simgpu.metrics.activity import AXES
from simgpu.metrics.gain import Gain
from simgpu.metrics.report import Report
from simgpu.pricing import lower_case, op_prices
from simgpu.program import COMPUTE
from simgpu.timeline import Timeline
from simgpu.what_ifs.change import CHIP, LINKS, Change, faster_device, parse_changes, with_free_axis, without_messages
from simgpu.workload.architecture import Architecture
from simgpu.workload.host_costs import HostCosts

SHOWN: Final = 3
MOST_REPLAYS: Final = 5
"""Times that a case is played again to find its largest gains."""
MOST_SPANS: Final = 6_000
"""Spans played again for that, in all; some 0.2 s per 10,000 of them on one core (benchmarks/sweep.py)."""
_NOTABLE: Final = 0.0005  # of the step: less reads 0.0 %
_ISSUED_FREE: Final = HostCosts(forward_op_ns=0, backward_op_ns=0, collective_ns=0, launch_ns=0)


def what_if(case: Case, changes: str | Sequence[Change], *, fold: bool = True) -> tuple[Gain, ...]:
    """Play a case under each change alone and, where there are several, under all of them together.

    Parameters
    ----------
    case : Case
    changes : str or sequence of Change
        ``nvlink=2x,network=free,bubble=none``; docs/what_if.md has them all.
    fold : bool
        Simulate one of each class of equal ranks only.

    Returns
    -------
    tuple of Gain
        In the order asked, all together last.

    Raises
    ------
    ScenarioError
        For a change that there is not, or that means nothing for this case.

    Notes
    -----
    ``nvlink``, ``pcie`` and ``network`` with a factor: all links of the kind carry so many times the bytes, latencies
    stay. ``compute`` and ``hbm``: rates of arithmetic in all formats, bandwidth of device memory; launch latencies
    stay. ``network=free``: every transfer takes no time (the scenario's ``network: free``); ``tp=free`` and the like:
    those of one axis; members still wait for each other. ``host=none``: the CPU issues everything in no time.

    ``bubble=none``: pipeline dependencies cost nothing. No stage sends to or waits for another; each does its own work
    (kernels, other communication, what the CPU issues) as early as its own order of micro-batches lets it, and what is
    collective over stages still waits for the last. The step is that of the slowest rank: the busiest stage's work
    alone. Memory is not looked at: with so little to wait for, nothing bounds it.

    Examples
    --------
    >>> from simgpu.config import load_scenario
    >>> case = load_scenario("pipeline_ideal").cases[0]  # 4 equal stages, 16 micro-batches: 19 slots, 16 of them work
    >>> gain, = what_if(case, "bubble=none")
    >>> round(gain.share, 4)  # 3 / 19
    0.1579
    """
    asked = parse_changes(changes) if isinstance(changes, str) else tuple(changes)
    applicable_changes([case], asked)
    base_ns = _step_ns(case, (), fold=fold)
    together = [asked] if len(asked) > 1 else []
    return tuple(_gain(case, chosen, base_ns, fold=fold) for chosen in [*((one,) for one in asked), *together])


def applicable_changes(cases: Sequence[Case], changes: Sequence[Change]) -> tuple[tuple[Change, ...], ...]:
    """Return for each case the changes that mean something for it.

    Parameters
    ----------
    cases : sequence of Case
    changes : sequence of Change

    Returns
    -------
    tuple of tuple of Change

    Raises
    ------
    ScenarioError
        For a change that means nothing for any case.
    """
    problems = {change: [_problem(case, change) for case in cases] for change in changes}
    issues = [
        Issue(field=str(change), problem=found[0], fix="leave it out", file="--what-if")
        for change, found in problems.items()
        if all(found)
    ]
    if issues:
        raise ScenarioError(issues)
    return tuple(tuple(change for change, found in problems.items() if not found[index]) for index in range(len(cases)))


def largest_gains(case: Case, report: Report, *, fold: bool = True) -> tuple[Gain, ...]:
    """Return the up to three changes that gain most, of those that take away what this run waits for.

    Candidates are links twice as fast, an axis without communication, no bubble and no waiting for the CPU. They are
    ordered by what the breakdown says they can gain at most, about, and the first of them are played: five at most,
    and no more than MOST_SPANS spans in all. A chip twice as fast always gains; ask for it by name.

    Parameters
    ----------
    case : Case
    report : Report
        Of this case.
    fold : bool

    Returns
    -------
    tuple of Gain
        Largest first; those that gain nothing are left out.
    """
    spans = 0 if report.timeline is None else len(report.timeline.spans)
    replays = min(MOST_REPLAYS, MOST_SPANS // max(spans, 1))
    if not replays:
        return ()
    gains = [_gain(case, (change,), report.step_time_ns, fold=fold) for change in _candidates(case, report)[:replays]]
    notable = [gain for gain in gains if gain.share >= _NOTABLE]
    return tuple(sorted(notable, key=lambda gain: -gain.share)[:SHOWN])


def _gain(case: Case, changes: Sequence[Change], base_ns: int, *, fold: bool) -> Gain:
    step_ns = _step_ns(case, changes, fold=fold)
    return Gain(
        change=",".join(map(str, changes)),
        words=" and ".join(change.words for change in changes),
        step_time_ns=step_ns,
        share=1 - step_ns / base_ns if base_ns else 0.0,
    )


def _step_ns(case: Case, changes: Iterable[Change], *, fold: bool) -> int:
    """Play a case under changes and return its step."""
    prices = op_prices(case)
    names = {change.name for change in changes}
    for change in changes:
        if change.kind is not None:
            case = replace(case, cluster=with_faster_links(case.cluster, change.kind, change.factor or 1.0))
        elif change.name == "network":
            case = replace(case, network_free=True)
        elif change.name in CHIP:
            prices = KernelPrices(faster_device(prices.gpu, change))
    if "host" in names:
        case = replace(case, software=replace(case.software, host=_ISSUED_FREE))
    program = perturbed(lower_case(case, prices), case.perturbation)
    for axis in names.intersection(AXES):
        program = with_free_axis(program, axis)
    if "bubble" in names:
        program = without_messages(program)
    timeline = play(fold_program(program) if fold else program)
    if "bubble" in names:
        return _slowest_period_ns(timeline)
    begin, end = timeline.window_ns
    return end - begin


def _slowest_period_ns(timeline: Timeline) -> int:
    """Return the longest time from one end of a rank's step to its next: ranks that never meet drift apart."""
    spans = timeline.spans
    compute = spans.stream == timeline.streams.index(COMPUTE)
    periods = []
    for rank in range(len(timeline.program.ranks)):
        own = compute & (spans.rank == rank)
        ends = [
            int(spans.end_ns[own & (spans.step == step)].max(initial=0)) for step in (timeline.step - 1, timeline.step)
        ]
        periods.append(ends[1] - ends[0])
    return max(periods)


def _problem(case: Case, change: Change) -> str:
    """Say why a change means nothing for a case; a gain of nothing would read as a finding."""
    links = case.cluster.links
    if change.kind is not None and all(links[i].kind != change.kind for i in case.cluster.distinct(range(len(links)))):
        return f"{case.cluster.name} has no {change.kind} links"
    if change.name in CHIP and not isinstance(case.model, Architecture):
        return "the model is synthetic: its times are given"
    if change.name in CHIP and case.costs.table is not None:
        return "op times are measured: they are in costs.table"
    if change.name == "bubble" and case.strategy.pp == 1:
        return "there is no pipeline: parallel.pp is 1"
    if change.name in AXES and change.name not in _axes(case):
        return f"nothing is sent: parallel.{change.name} is 1"
    return ""


def _axes(case: Case) -> set[str]:
    strategy = case.strategy
    return {axis for axis in AXES if getattr(strategy, axis, 1) > 1}


def _candidates(case: Case, report: Report) -> list[Change]:
    """List what may gain notably, by what it can gain at most, about."""
    lost = report.breakdown_ns
    kinds = {link.name: link.kind for link in case.cluster.links}
    by_kind = dict.fromkeys(LINKS, 0.0)
    for axis in AXES:
        for kind in {kinds.get(one.bottleneck) for one in report.transfers if one.axis == axis}:
            if kind in by_kind:
                by_kind[kind] += lost[f"exposed.{axis}"] / 2
    bounds = {Change(name=kind, factor=2.0): bound for kind, bound in by_kind.items()}
    bounds |= {Change(name=axis, factor=None): lost[f"exposed.{axis}"] for axis in sorted(_axes(case))}
    bounds |= {Change(name="bubble", factor=None): lost["bubble"], Change(name="host", factor=None): lost["host"]}
    notable = [change for change, bound in bounds.items() if bound >= _NOTABLE * report.step_time_ns]
    return sorted(
        (change for change in notable if change.name != "bubble" or case.strategy.pp > 1),
        key=lambda change: -bounds[change],
    )
