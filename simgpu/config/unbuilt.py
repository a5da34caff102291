"""What the schema lists and SimGPU does not simulate: refused by name, never ignored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from simgpu import __version__
from simgpu.config.block import Block
from simgpu.config.findings import Findings
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.io.yaml_file import FieldPath
from simgpu.parallel.data_parallel import STRATEGIES
from simgpu.parallel.schedules import SCHEDULES

RELEASE: Final = ".".join(__version__.split(".")[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbuilt:
    """A field, or values of a field, without simulation behind it.

    Parameters
    ----------
    path : str
        Dotted path of the field.
    what : str
        What it stands for, after "does not".
    allowed : tuple
        Values that are simulated; empty when the field must be left out.
    """

    path: str
    what: str
    allowed: tuple[Any, ...] = ()


UNBUILT: Final = (
    Unbuilt(path="training.precision", what="simulate fp8 arithmetic", allowed=("bf16", "fp16", "fp32", "tf32")),
    Unbuilt(path="training.optimizer", what="simulate this optimizer", allowed=("adamw", "sgd", "none")),
    Unbuilt(path="training.frozen", what="simulate frozen weights"),
    Unbuilt(path="parallel.cp", what="simulate context parallelism", allowed=(1,)),
    Unbuilt(path="parallel.ep", what="simulate expert parallelism", allowed=(1,)),
    Unbuilt(path="parallel.virtual_stages", what="simulate interleaved pipeline stages", allowed=(1,)),
    Unbuilt(path="parallel.tp_overlap", what="simulate overlapped tensor parallelism", allowed=(False,)),
    Unbuilt(path="parallel.schedule", what="simulate this pipeline schedule", allowed=tuple(SCHEDULES)),
    Unbuilt(
        path="parallel.data_parallel",
        what="simulate this kind of data parallelism",
        allowed=tuple(STRATEGIES),
    ),
    Unbuilt(path="ddp.find_unused_parameters", what="simulate the search for unused parameters", allowed=(False,)),
    Unbuilt(path="ddp.static_graph", what="simulate DDP's static graph", allowed=(False,)),
    Unbuilt(path="ddp.gradient_as_bucket_view", what="simulate gradients as bucket views", allowed=(False,)),
    Unbuilt(path="zero.stage3_prefetch_bucket_size", what="take a choice of ZeRO-3's prefetch"),
    Unbuilt(path="zero.stage3_param_persistence_threshold", what="simulate persistent parameters of ZeRO-3"),
    Unbuilt(path="zero.offload_optimizer", what="simulate optimizer offload"),
    Unbuilt(path="zero.offload_param", what="simulate parameter offload"),
    Unbuilt(path="fsdp.forward_prefetch", what="take a choice of FSDP's forward prefetch"),
    Unbuilt(path="fsdp.backward_prefetch", what="take a choice of FSDP's backward prefetch"),
    Unbuilt(path="fsdp.limit_all_gathers", what="simulate FSDP 1's gather limit"),
    Unbuilt(path="fsdp.cpu_offload", what="simulate FSDP's CPU offload", allowed=(False,)),
    Unbuilt(path="distributed_optimizer", what="simulate Megatron's distributed optimizer"),
    Unbuilt(path="software", what="simulate this software generation", allowed=("flash",)),
    Unbuilt(path="software.preset", what="simulate this software generation", allowed=("flash",)),
    Unbuilt(path="software.host_issue_ns", what="simulate the host's issue cost"),
    Unbuilt(path="costs", what="read measured op tables"),
    Unbuilt(path="perturb.seed", what="simulate random disturbances"),
    Unbuilt(path="perturb.jitter", what="simulate random disturbances"),
    Unbuilt(path="perturb.slow_ranks", what="simulate slow ranks"),
    Unbuilt(path="sweep", what="run sweeps"),
    Unbuilt(path="measured", what="compare with published values"),
)


def refuse_unbuilt(scenario: ScenarioBlock, findings: Findings) -> None:
    """Note every field that asks for something SimGPU does not simulate.

    Parameters
    ----------
    scenario : ScenarioBlock
    findings : Findings

    Examples
    --------
    >>> from simgpu.config.draft import Draft
    >>> data = {"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "training": {}, "parallel": {"cp": 2}}
    >>> findings = Findings(draft=Draft(data=data, source="s.yaml"))
    >>> refuse_unbuilt(ScenarioBlock.model_validate(data), findings)
    >>> print(findings.issues[0])
    s.yaml: parallel.cp = 2: SimGPU 0.1 does not simulate context parallelism; allowed: 1
    """
    for unbuilt in UNBUILT:
        value = _value(scenario, unbuilt.path)
        if value is None or (isinstance(value, Block) and unbuilt.allowed) or value in unbuilt.allowed:
            continue
        findings.add(
            unbuilt.path,
            f"SimGPU {RELEASE} does not {unbuilt.what}",
            allowed=_list(unbuilt.allowed) or None,
            fix=None if unbuilt.allowed else "leave it out",
        )


def refuse_measured(findings: Findings, path: FieldPath) -> None:
    """Note a variant's ``measured`` block.

    Parameters
    ----------
    findings : Findings
    path : tuple of str or int
        Where it is.
    """
    what = next(unbuilt.what for unbuilt in UNBUILT if unbuilt.path == "measured")
    problem = f"SimGPU {RELEASE} does not {what}"
    findings.note(path, findings.draft.issue(path, problem, fix="leave it out"))


def note_for_editors(path: str) -> str:
    """Return the sentence about a field that an editor shows, or an empty text.

    Parameters
    ----------
    path : str
        Dotted path of the field.

    Returns
    -------
    str

    Examples
    --------
    >>> note_for_editors("parallel.cp")
    'SimGPU 0.1 simulates only: 1.'
    >>> note_for_editors("parallel.tp")
    ''
    """
    for unbuilt in UNBUILT:
        if unbuilt.path == path:
            return (
                f"SimGPU {RELEASE} simulates only: {_list(unbuilt.allowed)}."
                if unbuilt.allowed
                else f"SimGPU {RELEASE} does not simulate this."
            )
    return ""


def simulated_values(path: str) -> tuple[Any, ...]:
    """Return the values of a field that are simulated, where the schema lists more; else nothing.

    Parameters
    ----------
    path : str
        Dotted path of the field.

    Returns
    -------
    tuple

    Examples
    --------
    >>> simulated_values("parallel.schedule"), simulated_values("parallel.tp")
    (('1f1b', 'gpipe'), ())
    """
    return next((unbuilt.allowed for unbuilt in UNBUILT if unbuilt.path == path), ())


def _list(values: tuple[Any, ...]) -> str:
    return ", ".join(str(value).lower() for value in values)


def _value(scenario: ScenarioBlock, path: str) -> Any:
    here: Any = scenario
    for part in path.split("."):
        if not isinstance(here, Block):
            return None
        here = getattr(here, part)
    return here
