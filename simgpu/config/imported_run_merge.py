"""Several files about one run, field by field: who says what, and who is right where they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.deepspeed_match import mismatches
from simgpu.io.foreign.reading import Reading

COMMAND_LINE: Final = "--set"
_RANK: Final = {COMMAND_LINE: 9, "launch-line": 5, "hf-config": 6, "deepspeed": 2, "accelerate": 1}
_TRAINER_RANK: Final = 3
_KERNELS: Final = "software.preset"
_STAGE: Final = "parallel.data_parallel"


@dataclass(slots=True)
class Merged:
    """Fields of all files.

    Parameters
    ----------
    values : dict
        By dotted scenario field; those of ``software`` apart.
    sources : dict
        Which file gave each.
    notes : list of str
        Where one file went before another.
    """

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, name: str, value: Any, source: str) -> None:
        """Set a field; None takes it out."""
        self.values.pop(name, None)
        self.sources.pop(name, None)
        if value is not None:
            self.values[name], self.sources[name] = value, source

    def get(self, name: str) -> Any:
        """Return a field's value, or None."""
        return self.values.get(name)


def merge(readings: Sequence[Reading]) -> Merged:
    """Lay files about one run over each other.

    A launch line goes before the files that it starts with; a trainer's arguments before Accelerate's. Otherwise two
    files that say different things are refused, in Transformers' or Accelerate's words where they have some.

    Parameters
    ----------
    readings : sequence of Reading

    Returns
    -------
    Merged

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> files = [Reading(source="a.yaml", kind="accelerate", settings={"training.precision": "fp16"}),
    ...          Reading(source="run.sh", kind="launch-line", settings={"training.precision": "bf16"})]
    >>> merge(files).values, merge(files).notes
    ({'training.precision': 'bf16'}, ['training.precision: bf16 of run.sh goes before fp16 of a.yaml'])
    """
    ordered = sorted(readings, key=lambda reading: _RANK.get(reading.kind, _TRAINER_RANK))
    _check_deepspeed(ordered)
    merged = Merged()
    kinds: dict[str, str] = {}
    for reading in ordered:
        for name, value in _flat(reading.settings).items():
            before = merged.get(name)
            if name == _KERNELS and before == "compile" and kinds[name] == "accelerate":
                continue  # Accelerate compiles whatever attention the script asks for
            if before is not None and before != value:
                _decide(name, before, kinds[name], merged.sources[name], reading, value, merged)
            merged.put(name, value, reading.source)
            kinds[name] = reading.kind
    _check_pipeline(merged)
    return merged


def _check_pipeline(merged: Merged) -> None:
    """Refuse stages of ZeRO that DeepSpeed's pipelines refuse, unless the user decides for them himself.

    deepspeedai/DeepSpeed deepspeed/runtime/pipe/engine.py, PipelineEngine.
    """
    stage, source = merged.get(_STAGE), merged.sources.get(_STAGE)
    if stage not in ("zero2", "zero3") or (merged.get("parallel.pp") or 1) == 1 or source == COMMAND_LINE:
        return
    beside = f"beside parallel.pp {merged.get('parallel.pp')} of {merged.sources['parallel.pp']}"
    problem = f"{beside}: DeepSpeed: ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism"
    fix = f"take stage 1 or no pipeline, or ask what it would cost with --set {_STAGE}={stage}"
    issue = Issue(field="zero_optimization.stage", value=stage[-1], problem=problem, fix=fix, file=source)
    raise ScenarioError([issue])


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "software":
            block = value if isinstance(value, Mapping) else {"preset": value}
            result |= {f"software.{key}": inner for key, inner in block.items()}
        else:
            result[name] = value
    return result


def _decide(name: str, before: Any, kind: str, source: str, reading: Reading, value: Any, merged: Merged) -> None:
    """Note that the later file goes before the earlier one, or refuse both."""
    pair = (kind, reading.kind)
    same_rank = _RANK.get(kind, _TRAINER_RANK) == _RANK.get(reading.kind, _TRAINER_RANK)
    if name == "model" and "hf-config" in pair and isinstance(before, str):
        merged.notes.append(f"model: {reading.source} has the dimensions of {before}, which {source} names")
        return
    if name == "training.precision" and pair == ("deepspeed", "launch-line") and "fp32" not in (before, value):
        problem = (
            f"`--mixed_precision` arg cannot be set to `{value}` when `{before}` is set in the DeepSpeed config file"
        )
        raise ScenarioError([Issue(field="mixed_precision", value=str(value), problem=problem, file=reading.source)])
    if same_rank or (name == "parallel.data_parallel" and "deepspeed" in pair):
        problem = f"is {_shown(before)} in {source} and {_shown(value)} in {reading.source}"
        fix = f"leave one of the files out, or decide with --set {name}=..."
        raise ScenarioError([Issue(field=name, problem=problem, fix=fix)])
    if reading.kind != COMMAND_LINE:
        merged.notes.append(f"{name}: {_shown(value)} of {reading.source} goes before {_shown(before)} of {source}")


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_deepspeed(readings: Sequence[Reading]) -> None:
    """Compare a DeepSpeed file with Trainer arguments, as Transformers does before it starts."""
    trainers = [
        reading
        for reading in readings
        if _RANK.get(reading.kind, _TRAINER_RANK) == _TRAINER_RANK or reading.kind == "launch-line"
    ]
    for reading in readings:
        if reading.kind != "deepspeed":
            continue
        for other in trainers:
            wrong = list(mismatches(reading.matched, other.matched))
            if wrong:
                problem = (
                    "Please correct the following DeepSpeed config values that mismatch TrainingArguments values: "
                    + ", ".join(wrong)
                )
                fix = f"set these DeepSpeed config values to 'auto', or to those of {other.source}"
                raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=reading.source)])
