"""What the files of a run leave to shell variables: each such field must be given, because no default would be true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from simgpu.config.imported_run_merge import Merged
from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.typed_values import AUTO

_BLOCKS: Final = (
    "model",
    "cluster",
    "training",
    "parallel",
    "ddp",
    "zero",
    "fsdp",
    "distributed_optimizer",
    "network",
    "software",
)
_MACHINES: Final = ("cluster.nodes", "cluster.gpus")
_BATCH: Final = ("training.micro_batch_size", "training.gradient_accumulation", "training.global_batch_size")


def check_open(merged: Merged, readings: Sequence[Reading], *, model_given: bool) -> None:
    """Refuse a run as long as fields of it are open.

    Parameters
    ----------
    merged : Merged
        All files and answers laid over each other.
    readings : sequence of Reading
        Scenario fields in ``open``, with the words that a file has in their place; ``auto`` is resolved elsewhere.
    model_given : bool
        Whether the user names the model, which answers all fields of it.

    Raises
    ------
    ScenarioError
        One issue per field. The number of machines is no such field: it is asked for when the batch is laid out.

    Examples
    --------
    >>> reading = Reading(source="run.sh", kind="megatron-args", settings={},
    ...                   open={"parallel.tp": "--tensor-model-parallel-size $TP"})
    >>> check_open(Merged(values={"parallel.tp": 4}), [reading], model_given=False)
    >>> check_open(Merged(), [reading], model_given=False)
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: run.sh: parallel.tp: is left open: --tensor-model-parallel-size $TP; fix: --set para...
    """
    issues = list(_issues(merged, readings, model_given))
    if issues:
        raise ScenarioError(issues)


def _issues(merged: Merged, readings: Sequence[Reading], model_given: bool) -> Iterator[Issue]:
    said = dict.fromkeys(_MACHINES)
    for reading in readings:
        for field, words in reading.open.items():
            block, _, name = field.partition(".")
            if block not in _BLOCKS or not name or words == AUTO or field in said:
                continue
            if field in _BATCH and sum(other in merged.values for other in _BATCH) > 1:
                continue  # two of them give the third
            if field in merged.values or (block == "model" and (model_given or name in _dimensions(merged))):
                continue
            said[field] = None
            fix = f"--set {field}=..." + (", or --model" if block == "model" else "")
            yield Issue(field=field, problem=f"is left open: {words}", fix=fix, file=reading.source)


def _dimensions(merged: Merged) -> dict[str, object]:
    model = merged.get("model")
    return dict(model) if isinstance(model, dict) else {}
