"""Which layers Megatron puts on which pipeline stage."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from simgpu.io.foreign.megatron_arguments import MegatronArguments

_LAYOUT: Final = "pipeline-model-parallel-layout"
_STAGES: Final = ("num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank", _LAYOUT)
_MOST_LAYERS: Final = 10_000


def pipeline_settings(arguments: MegatronArguments, pp: int | None, layers: int | None) -> dict[str, Any]:
    """Return virtual stages, layers per stage and the schedule's settings.

    Parameters
    ----------
    arguments : MegatronArguments
    pp : int or None
    layers : int or None

    Returns
    -------
    dict
        Scenario fields.

    Raises
    ------
    ScenarioError
        When the layers do not fit the stages, in Megatron's own terms.

    References
    ----------
    NVIDIA/Megatron-LM megatron/training/arguments.py, validate_args
    """
    if arguments.has(_LAYOUT):
        return _from_layout(arguments, pp)
    virtual = _virtual(arguments, pp, layers)
    _check_interleaved(arguments, pp, virtual or 1)
    settings: dict[str, Any] = {}
    if virtual is not None and virtual > 1:
        settings["parallel.virtual_stages"] = virtual
        settings["parallel.overlap_p2p"] = not arguments.flag("no-overlap-p2p-communication")
    elif arguments.has("no-overlap-p2p-communication"):
        arguments.flag("no-overlap-p2p-communication")
    if pp is not None and pp > 1 and layers is not None:
        settings["parallel.layers_per_stage"] = _uneven(arguments, pp, virtual or 1, layers)
    elif pp is None:
        _ends(arguments)
    return settings


def layer_pattern(text: str, layers: int | None) -> list[int] | None:
    """Return which layers have experts (1) and which have not (0), as --moe-layer-freq says it.

    Parameters
    ----------
    text : str
        A whole number N (every N-th layer, the first one included) or a list such as ``[0]*3+[1]*58``.
    layers : int or None

    Returns
    -------
    list of int or None
        None when it is neither, or a number without a number of layers.

    Examples
    --------
    >>> layer_pattern("([0]*1+[1]*2)", None), layer_pattern("2", 4), layer_pattern("import os", 4)
    ([0, 1, 1], [1, 0, 1, 0], None)
    """
    try:
        value = _evaluate(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if isinstance(value, list):
        return value if all(entry in (0, 1) for entry in value) else None
    if layers is None or value < 1:
        return None
    return [int(layer % value == 0) for layer in range(layers)]


def expand_layout(text: str) -> list[str]:
    """Return the letters of every stage of a pipeline layout string.

    Parameters
    ----------
    text : str
        E embedding, t layer, m multi-token prediction, L loss, ``|`` border of a stage, ``*n`` repeats the letter or
        the group in parentheses before it, commas mean nothing.

    Returns
    -------
    list of str

    Examples
    --------
    >>> expand_layout("E|(t|)*3,m|m||L")
    ['E', 't', 't', 't', 'm', 'm', '', 'L']
    """
    plain = text.replace(",", "").replace(" ", "").strip("\"'")
    for _ in range(len(plain)):
        unrolled = re.sub(
            r"(?:\(([^()]*)\)|([EtmL|]))\*(\d+)",
            lambda match: (match[1] if match[1] is not None else match[2]) * min(int(match[3]), _MOST_LAYERS),
            plain,
            count=1,
        )
        if unrolled == plain or len(unrolled) > 4 * _MOST_LAYERS:
            break
        plain = unrolled
    return re.sub(r"\(([^()]*)\)", r"\1", plain).split("|")


def _from_layout(arguments: MegatronArguments, pp: int | None) -> dict[str, Any]:
    text = arguments.text(_LAYOUT, field="parallel.layers_per_stage")
    if text is None:
        return {}
    stages = expand_layout(text)
    if any(set(stage) - set("EtmL") for stage in stages):
        arguments.refuse(_LAYOUT, "is no pipeline layout", allowed="E, t, m, L, |, (...)*n")
    if pp is not None and len(stages) % pp:
        arguments.refuse(_LAYOUT, f"has {len(stages)} stages, which the {pp} pipeline ranks do not divide")
    found: dict[str, Any] = {"parallel.layers_per_stage": [stage.count("t") for stage in stages]}
    if pp is not None and len(stages) > pp:
        found["parallel.virtual_stages"] = len(stages) // pp
        found["parallel.overlap_p2p"] = not arguments.flag("no-overlap-p2p-communication")
    return found if pp is None or pp > 1 else {}


def _virtual(arguments: MegatronArguments, pp: int | None, layers: int | None) -> int | None:
    field = "parallel.virtual_stages"
    stages = arguments.integer(_STAGES[1], field=field, least=1)
    per_stage = arguments.integer(_STAGES[0], field=field, least=1)
    if stages is not None or per_stage is None:
        return stages
    if _ends(arguments) != [None, None]:
        problem = "stands beside --decoder-first/last-pipeline-num-layers, with which Megatron takes another argument"
        arguments.refuse(_STAGES[0], problem, fix=f"use --{_STAGES[1]}")
    if pp is None or layers is None:
        arguments.leave_open(field, f"{arguments.key(_STAGES[0])} {per_stage}, of an unknown number of layers")
        return None
    counted = layers + sum(_counted(arguments))
    if counted % pp or (counted // pp) % per_stage:
        ends = ", embedding and loss counted," if counted > layers else ""
        arguments.refuse(_STAGES[0], f"does not divide the {counted} layers{ends} over {pp} pipeline ranks")
    return counted // pp // per_stage


def _check_interleaved(arguments: MegatronArguments, pp: int | None, virtual: int) -> None:
    """Refuse virtual stages where Megatron-LM's own command line does; NeMo checks none of it."""
    name = next((name for name in _STAGES if arguments.has(name)), _STAGES[1])
    if virtual == 1 or pp is None or not arguments.key(name).startswith("--"):
        return
    if pp == 1:
        arguments.refuse(name, "needs --pipeline-model-parallel-size of more than 1 in Megatron")
    if pp == 2 and arguments.flag("no-overlap-p2p-communication"):
        problem = "needs more than 2 pipeline ranks in Megatron without overlap: they send and receive at once"
        arguments.refuse(name, problem, fix="leave --no-overlap-p2p-communication out")


def _counted(arguments: MegatronArguments) -> tuple[bool, bool]:
    """Whether embedding and head count as a layer each; in Megatron-DeepSpeed both match the layers' types."""
    if "embedding" in (arguments.text("pp-partition-method") or ""):
        return True, True
    embedding, loss = (arguments.flag(f"account-for-{part}-in-pipeline-split") for part in ("embedding", "loss"))
    return embedding, loss


def _uneven(arguments: MegatronArguments, pp: int, virtual: int, layers: int) -> list[int] | None:
    """Layers of each stage, first stage first; None where all are alike."""
    stages = pp * virtual
    ends = _ends(arguments)
    if ends == [None, None]:
        ends_counted = _counted(arguments)
        counted = layers + sum(ends_counted)
        if counted == layers:
            return None
        if counted % stages:
            arguments.refuse(
                "num-layers", f"with embedding and loss, {counted} are not divided by {stages} pipeline stages"
            )
        placed = [counted // stages] * stages
        placed[0] -= ends_counted[0]
        placed[-1] -= ends_counted[1]
        return placed
    first, last = ends
    inner = pp - sum(end is not None for end in ends)
    rest = layers - (first or 0) - (last or 0)
    if (inner and rest % inner) or (not inner and rest):
        arguments.refuse("num-layers", f"leaves {rest} for {inner} pipeline ranks between first and last")
    ranks = [rest // inner if inner else 0] * pp
    ranks[0] = ranks[0] if first is None else first
    ranks[-1] = ranks[-1] if last is None else last
    if any(rank % virtual for rank in ranks):
        arguments.refuse("num-layers", f"are not divided by the {virtual} virtual stages of every rank")
    return [rank // virtual for _ in range(virtual) for rank in ranks]


def _ends(arguments: MegatronArguments) -> list[int | None]:
    """Layers of the first and the last rank, where they are given."""
    field = "parallel.layers_per_stage"
    return [arguments.integer(f"decoder-{end}-pipeline-num-layers", field=field, least=1) for end in ("first", "last")]


def _evaluate(node: Any) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value <= _MOST_LAYERS:
        return node.value
    if isinstance(node, ast.List):
        return [_evaluate(entry) for entry in node.elts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _evaluate(node.left), _evaluate(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Mult) and {type(left), type(right)} == {list, int}:
            size = len(left) * right if isinstance(left, list) else left * len(right)
            if size <= _MOST_LAYERS:
                return left * right
    raise ValueError("no list of layers")
