"""A scenario with sliders: any field on a control, the Gantt live beside it. For notebooks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from simgpu.api import report_case
from simgpu.config.load import Source, load_scenario
from simgpu.errors import Issue, ScenarioError, SimGPUError
from simgpu.metrics.report import Report
from simgpu.metrics.verdict import describe_run
from simgpu.view.figure import text
from simgpu.view.figures import FIGURES
from simgpu.view.gantt import spec

if TYPE_CHECKING:
    import ipywidgets
    import plotly.graph_objects as go

    from simgpu.config.case import Case

_MOST_BARS: Final = 2_000  # a figure that is drawn anew with every move of a slider
_SCHEDULES: Final = ("gpipe", "1f1b", "zbh1")
_SHARDINGS: Final = ("ddp", "zero1", "zero2", "zero3", "fsdp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One field of the scenario and the values it may take."""

    field: str
    values: tuple[Any, ...]
    start: Any


def explore(
    scenario: Source,
    fields: Mapping[str, Sequence[Any]] | None = None,
    *,
    case: str | None = None,
    figure: str = "timeline",
) -> ipywidgets.VBox:
    """Show a scenario with a slider for each of some fields; every move simulates again and redraws.

    Parameters
    ----------
    scenario : str, Path or mapping
        Path of a scenario file, bundled name, or the file's contents.
    fields : mapping of str to sequence, optional
        Dotted fields with the values to choose from, such as ``{"parallel.pp": [1, 2, 4]}``.
        By default those that a scenario of its kind is asked about most.
    case : str, optional
        Variant to start from; the first by default.
    figure : str
        ``timeline``, ``breakdown``, ``memory`` or ``composition``.

    Returns
    -------
    ipywidgets.VBox
        Controls, the verdict in words, and a ``FigureWidget``. What cannot be simulated is said in place of the
        verdict, and the last picture stays.

    Raises
    ------
    ScenarioError
        When the scenario cannot be loaded, or a field or figure is not there.
    ModuleNotFoundError
        Without the ``notebook`` extra.

    Examples
    --------
    >>> box = explore("pipeline_ideal", {"training.global_batch_size": [4, 8, 16, 32]})  # doctest: +SKIP
    """
    import ipywidgets
    import plotly.graph_objects as go

    if figure not in FIGURES:
        raise ScenarioError([Issue(field="figure", value=figure, problem="is none", allowed=", ".join(FIGURES))])
    if fields is not None and not isinstance(fields, Mapping):
        allowed = "a mapping of fields to values, such as {'parallel.pp': [1, 2, 4]}"
        raise ScenarioError([Issue(field="fields", value=str(fields), problem="is no mapping", allowed=allowed)])
    controls = _controls(*_case(scenario, case, ()), fields)
    picture = go.FigureWidget()
    words = ipywidgets.HTML()
    sliders = [_slider(control) for control in controls]

    def show(_: object = None) -> None:
        chosen = [_setting(control.field, slider.value) for control, slider in zip(controls, sliders, strict=True)]
        try:
            report = _simulated(_case(scenario, case, chosen)[0])
        except SimGPUError as error:
            words.value = f"<p style='color:#b3261e'>{text(error)}</p>"
            return
        words.value = f"<p><b>{text(next(iter(report.verdict.splitlines()), ''))}</b></p>"
        _redraw(picture, report, figure)

    for slider in sliders:
        slider.observe(show, names="value")
    show()
    _fill_the_page(picture)
    return ipywidgets.VBox([*sliders, words, picture])


def _case(scenario: Source, name: str | None, settings: Sequence[str]) -> tuple[Case, Mapping[str, Any]]:
    """Return the case and what a file of it alone would hold."""
    loaded = load_scenario(scenario, overrides=settings)
    for case, draft in zip(loaded.cases, loaded.drafts, strict=True):
        if name in (None, case.name):
            return case, draft
    allowed = ", ".join(f'"{one.name}"' for one in loaded.cases)
    raise ScenarioError([Issue(field="case", value=name, problem="is no variant", allowed=allowed)])


def _controls(case: Case, draft: Mapping[str, Any], fields: Mapping[str, Sequence[Any]] | None) -> list[Control]:
    current = _current(case) | {field: value for field in fields or () if (value := _written(draft, field)) is not None}
    if fields is None:
        offered = {
            "training.micro_batch_size": (1, 2, 4, 8),
            "training.global_batch_size": tuple(_around(current["training.global_batch_size"])),
            **({"parallel.schedule": _SCHEDULES} if case.strategy.pp > 1 else {}),
            **({"parallel.data_parallel": _SHARDINGS} if case.strategy.dp > 1 else {}),
        }
    else:
        offered = {field: tuple(values) for field, values in fields.items()}
    empty = [field for field, values in offered.items() if not values]
    if empty:
        raise ScenarioError([Issue(field=field, problem="has no values to choose from") for field in empty])
    return [
        Control(field=field, values=values, start=current[field] if current.get(field) in values else values[0])
        for field, values in offered.items()
    ]


def _around(value: int) -> list[int]:
    """Halves and doubles of a value, up to three each way.

    Examples
    --------
    >>> _around(4), _around(96)
    ([1, 2, 4, 8, 16, 32], [12, 24, 48, 96, 192, 384, 768])
    """
    down = [value >> power for power in (3, 2, 1) if value >> power and (value >> power) << power == value]
    return [*down, *(value << power for power in range(4))]


def _current(case: Case) -> dict[str, Any]:
    training, strategy = case.training, case.strategy
    return {
        "training.micro_batch_size": training.micro_batch_size,
        "training.global_batch_size": case.global_batch_size,
        "training.sequence_length": training.sequence_length,
        "parallel.tp": strategy.tp,
        "parallel.pp": strategy.pp,
        "parallel.data_parallel": strategy.data_parallel,
        "parallel.schedule": strategy.schedule,
        "cluster.gpus": case.cluster.world_size,
    }


def _written(draft: Mapping[str, Any], field: str) -> Any:
    """Value of a dotted field as the scenario has it; None where it has none.

    Examples
    --------
    >>> _written({"parallel": {"pp": 4}}, "parallel.pp"), _written({"network": "free"}, "network.nccl")
    (4, None)
    """
    found: Any = draft
    for name in field.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _slider(control: Control) -> Any:
    import ipywidgets

    options = [(str(value), value) for value in control.values]
    layout = ipywidgets.Layout(width="620px")
    style = {"description_width": "220px"}
    return ipywidgets.SelectionSlider(
        options=options, value=control.start, description=control.field, layout=layout, style=style
    )


def _setting(field: str, value: Any) -> str:
    return f"{field}={json.dumps(value)}"


def _simulated(case: Case) -> Report:
    """Play one case without remedies and what-ifs, which would cost several runs a move."""
    report = report_case(case)
    return replace(report, verdict=describe_run(report, []))


def _fill_the_page(picture: go.FigureWidget) -> None:
    """Let plotly.js measure anew once the figure is on its page: it first draws it before that, 700 pixels wide."""
    drawn = "_js2py_traceDeltas"  # by this the browser tells that it has

    def measure(_: object) -> None:
        picture.unobserve(measure, names=drawn)
        picture.layout.autosize = False
        picture.layout.autosize = True

    picture.observe(measure, names=drawn)


def _redraw(picture: go.FigureWidget, report: Report, figure: str) -> None:
    """Change the traces in place where they are the same ones; the browser then keeps its zoom and its legend."""
    timeline = figure == "timeline"
    drawn = spec([report], max_bars=_MOST_BARS, verdicts=False) if timeline else FIGURES[figure]([report])
    with picture.batch_update():
        if [trace.name for trace in picture.data] == [trace.get("name") for trace in drawn["data"]]:
            for old, new in zip(picture.data, drawn["data"], strict=True):
                old.update(new, overwrite=True)
        else:
            picture.data = ()
            picture.add_traces(drawn["data"])
        picture.layout = drawn["layout"] | {"template": "none"}
