"""GPUs, nodes and batch of an imported run, which must fit each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.config.cluster_request import ClusterRequest, request_cluster
from simgpu.config.imported_run_batch import Batch, complete_batch
from simgpu.config.imported_run_layout import check_gpus, least_gpus, model_parallel, place
from simgpu.config.imported_run_merge import Merged
from simgpu.config.quantity import LARGEST_GPUS
from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.deepspeed_match import MICRO, STEPS
from simgpu.io.foreign.host_list import UNEVEN
from simgpu.io.foreign.ms_swift import LEAST_BATCH
from simgpu.io.foreign.reading import Reading

_BATCH: Final = ("training.micro_batch_size", "training.gradient_accumulation", "training.global_batch_size")
GPUS: Final = "cluster.gpus"
_MEGATRON: Final = ("megatron", "nemo", "gptneox")


def choose_machines(
    merged: Merged, readings: Sequence[Reading], asked: int | None, topology: str, assumed: list[str]
) -> tuple[int, int]:
    """Settle GPUs, nodes and batch: the batch must fit the GPUs, and where nobody gives these, they fit the batch."""
    per_node = request_cluster(ClusterRequest(topology=topology)).world_size
    wanted, source = _asked_gpus(readings)
    shares = next((r.open[UNEVEN] for r in readings if r.source == source and UNEVEN in r.open), None)
    given = asked if asked is not None else merged.get(GPUS)
    if given is None:
        _check_degrees(readings)
    else:
        if wanted not in (None, given):
            merged.notes.append(f"gpus: {given}, as asked for; {source} has {wanted}")
        wanted = given
    merged.put(GPUS, None, "")
    gpus, nodes = place(merged, gpus=wanted, per_node=per_node, topology=topology, sure=asked is not None)
    _least_batch(merged, readings, gpus)
    batch = Batch(micro=merged.get(_BATCH[0]), steps=merged.get(_BATCH[1]), total=merged.get(_BATCH[2]))
    rule, blamed = _rule(readings)
    if wanted is not None:
        done = complete_batch(batch, check_gpus(gpus, merged, source), rule, blamed)
    else:
        gpus, done = _fitting(batch, gpus, nodes, merged, rule, blamed)
        nodes = max(min(nodes, gpus), -(-gpus // per_node))
        left = [f", which {r.source} leaves to {r.open[GPUS]}" for r in readings if GPUS in r.open]
        where = f"{nodes} node{'s' if nodes > 1 else ''} of {topology}"
        assumed.append(f"gpus: {gpus} on {where}{left[0] if left else ''}; --gpus N for another number")
    if shares is not None and given is None and gpus % nodes:
        problem = f"are {gpus} on {nodes} nodes ({shares}), and nodes of one size are simulated"
        fix = "give each node as many, or --gpus N"
        raise ScenarioError([Issue(field="gpus", file=source, problem=problem, fix=fix)])
    if shares is not None and gpus == wanted and nodes > 1 and given is None:
        merged.notes.append(f"gpus: {source} has {shares} on its nodes; {gpus // nodes} on each are simulated")
    merged.put(_BATCH[0], done.micro, merged.sources.get(_BATCH[0], ""))
    merged.put(_BATCH[1], done.steps, merged.sources.get(_BATCH[1], ""))
    return gpus, nodes


def _least_batch(merged: Merged, readings: Sequence[Reading], gpus: int) -> None:
    """Accumulate up to the sequences that a program wants in a step, where nobody gives the steps.

    modelscope/ms-swift swift/trainers/arguments.py
    """
    least = next((int(reading.open[LEAST_BATCH]) for reading in readings if LEAST_BATCH in reading.open), None)
    if least is None or merged.get(_BATCH[1]) is not None or merged.get(_BATCH[2]) is not None:
        return
    steps = max(1, -(-least // ((merged.get(_BATCH[0]) or 1) * gpus)))
    merged.put(_BATCH[1], steps, "")
    merged.notes.append(f"{_BATCH[1]}: {steps}, for {least} sequences a step at least, ms-swift's default")


def _fitting(batch: Batch, most: int, nodes: int, merged: Merged, rule: str, blamed: str) -> tuple[int, Batch]:
    """Return the largest number of GPUs that the batch and the degrees fit."""
    size, unit = model_parallel(merged), least_gpus(merged)
    most = max(most, unit)
    _check_size(most)
    first: ScenarioError | None = None
    for gpus in range(most // unit * unit, 0, -unit):
        if gpus > nodes and gpus % nodes:
            continue
        if first is not None and batch.total is not None and batch.total % (gpus // size):
            continue  # whatever the rule, each rank has as many sequences
        try:
            return gpus, complete_batch(batch, gpus // size, rule, blamed)
        except ScenarioError as error:
            first = first or error
    if first is not None:
        raise first
    return unit, complete_batch(batch, unit // size, rule, blamed)


def _check_size(gpus: int) -> None:
    """Refuse more GPUs than a scenario may have, before any number of them is tried."""
    if gpus > LARGEST_GPUS:
        problem = "is what the degrees and nodes of the files come to"
        raise ScenarioError([Issue(field="gpus", value=str(gpus), problem=problem, allowed=f"1 to {LARGEST_GPUS}")])


def _asked_gpus(readings: Sequence[Reading]) -> tuple[int | None, str]:
    told = [reading for reading in readings if reading.gpus is not None]
    lines = [reading for reading in told if reading.kind == "launch-line"]
    counts = {reading.gpus for reading in lines or told}
    if len(counts) > 1:
        said = ", ".join(f"{reading.gpus} in {reading.source}" for reading in lines or told)
        raise ScenarioError([Issue(field="gpus", problem=f"are {said}", fix="decide with --gpus N")])
    if not told:
        return None, readings[0].source
    return (lines or told)[0].gpus, (lines or told)[0].source


def _check_degrees(readings: Sequence[Reading]) -> None:
    """Refuse a launch line that starts another number of ranks than the degrees of its job multiply to."""
    line = next((reading for reading in readings if reading.kind == "launch-line" and reading.gpus is not None), None)
    for reading in readings:
        if line is not None and line.gpus is not None and reading.degrees is not None:
            reading.degrees.check(line.gpus, line.source)


def _rule(readings: Sequence[Reading]) -> tuple[str, str]:
    trained = any({MICRO, STEPS} <= reading.matched.keys() and reading.kind != "deepspeed" for reading in readings)
    for reading in readings:
        if reading.kind == "deepspeed":
            return "trainer" if trained else "deepspeed", reading.source
        if reading.kind in ("llm-foundry", "olmo"):
            return "composer", reading.source
    for reading in readings:
        if reading.kind.startswith(_MEGATRON):
            return "megatron", reading.source
    return "product", readings[0].source
