"""Which generation of Megatron's kernels a set of arguments runs."""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.megatron_arguments import MegatronArguments

_CORE: Final = (
    "use-mcore-models", "use-te", "expert-model-parallel-size", "expert-tensor-parallel-size",
    "moe-token-dispatcher-type",
    "multi-latent-attention", "use-megatron-fsdp", "use-custom-fsdp", "use-torch-fsdp2", "attention-backend",
    "ckpt-format",
    "fp8-format", "cp-comm-type", "moe-grouped-gemm", "qk-layernorm", "tp-comm-overlap",
    "num-virtual-stages-per-pipeline-rank",
    "pipeline-model-parallel-layout", "cross-entropy-loss-fusion", "context-parallel-size", "moe-router-score-function",
)  # fmt: skip
"""Options of Megatron core, whose --transformer-impl is transformer_engine by default."""
_OF_2022: Final = ("sequence-parallel", "recompute-granularity", "recompute-activations", "use-distributed-optimizer")
_OF_2021: Final = ("checkpoint-activations", "activations-checkpoint-method", "deepspeed")
_SCALING: Final = {"delayed": "delayed", "tensorwise": "current"}
_RECIPE: Final = "delayed"  # default of --fp8-recipe


def megatron_software(arguments: MegatronArguments, precision: str | None) -> dict[str, Any] | str:
    """Return the software generation: a preset, or one with its fp8 scaling.

    Parameters
    ----------
    arguments : MegatronArguments
    precision : str or None

    Returns
    -------
    str or dict
    """
    preset = _generation(arguments)
    graphs = (arguments.text("cuda-graph-impl") or "none") != "none" or arguments.flag("enable-cuda-graph")
    recipe = arguments.text("fp8-recipe") or _RECIPE
    if preset != "te" or not (graphs or precision == "fp8"):
        return preset
    found: dict[str, Any] = {"preset": preset}
    if precision == "fp8":
        if recipe not in _SCALING:
            arguments.note(
                f"{arguments.key('fp8-recipe')} {recipe}: scales of small blocks are found in the cast, and move no "
                "bytes here"
            )
        found["fp8_scaling"] = _SCALING.get(recipe, "delayed")
    if graphs:
        found["cuda_graphs"] = True
    return found


def _generation(arguments: MegatronArguments) -> str:
    implementation = arguments.text("transformer-impl")
    backend = (arguments.text("attention-backend") or "auto").lower()
    flash = arguments.flag("use-flash-attn") or arguments.flag("use-flash-attn-v2")
    core = arguments.has(*_CORE)
    for name in ("use-mcore-models", "use-te"):
        arguments.flag(name)
    if implementation is None:
        implementation = "transformer_engine" if core else None
    if implementation == "transformer_engine":
        if backend == "unfused":
            arguments.note("attention-backend unfused: the kernels of megatron-2022, whose attention keeps its scores")
            return "megatron-2022"
        return "te"
    if flash:
        return "megatron-2023"
    if implementation == "local" or arguments.has(*_OF_2022):
        return "megatron-2022"
    if arguments.has(*_OF_2021):
        return "megatron-2021"
    arguments.note(
        "no argument tells Megatron's generation: te, that of today, is taken; --set software=megatron-2021 (-2022, "
        "-2023) where it was another"
    )
    return "te"
