"""Which generation of Megatron's kernels a set of arguments runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simgpu.io.foreign.megatron_arguments import MegatronArguments
from simgpu.workload.software import PRESETS, Fusion

_CORE: Final = (
    "use-mcore-models", "use-te", "expert-model-parallel-size", "expert-tensor-parallel-size",
    "moe-token-dispatcher-type",
    "multi-latent-attention", "use-megatron-fsdp", "use-custom-fsdp", "use-torch-fsdp2", "attention-backend",
    "ckpt-format",
    "fp8-format", "cp-comm-type", "moe-grouped-gemm", "qk-layernorm", "tp-comm-overlap",
    "num-virtual-stages-per-pipeline-rank",
    "pipeline-model-parallel-layout", "cross-entropy-loss-fusion", "context-parallel-size", "moe-router-score-function",
    "overlap-param-gather", "use-rope-scaling",
)  # fmt: skip
"""Options of Megatron core (late 2023 and after), whose --transformer-impl is transformer_engine by default."""
_ENGINE: Final = "transformer_engine"
_FLASH: Final = ("use-flash-attn", "use-flash-attn-v2")
_GENERATIONS: Final = ("te", "megatron-2023", "megatron-2022", "megatron-2021")
_OF_2022: Final = ("sequence-parallel", "recompute-granularity", "recompute-activations", "use-distributed-optimizer")
_OF_2021: Final = (
    "batch-size",
    "model-parallel-size",
    "checkpoint-activations",
    "activations-checkpoint-method",
    "deepspeed",
)
_SCALING: Final = {"delayed": "delayed", "tensorwise": "current"}
_PRESET_LOSS: Final = {"te": "fused"}
"""What presets have for a cross-entropy, where it is no chain of kernels."""
_SWITCHES: Final[Mapping[str, Fusion]] = {
    "no-bias-dropout-fusion": "bias_dropout", "no-rope-fusion": "rope",
    "no-gradient-accumulation-fusion": "gradient_accumulation",
}  # fmt: skip
_RECIPE: Final = "delayed"  # default of --fp8-recipe


def megatron_software(arguments: MegatronArguments, precision: str | None) -> dict[str, Any] | str:
    """Return the software generation: a preset, or one with its fp8 scaling, cross-entropy and lacking fusions.

    Parameters
    ----------
    arguments : MegatronArguments
    precision : str or None

    Returns
    -------
    str or dict
    """
    preset = _generation(arguments)
    own = _unfused(arguments, preset) | _softmax(arguments, preset)
    graphs = (arguments.text("cuda-graph-impl") or "none") != "none"
    graphs = any([graphs, *(arguments.flag(f"{kind}-cuda-graph") for kind in ("enable", "external"))])
    if arguments.text("cuda-graph-scope") not in (None, "full", "full_iteration") and graphs:
        arguments.note(f"{arguments.key('cuda-graph-scope')}: the whole step is replayed from graphs here")
    recipe = arguments.text("fp8-recipe") or _RECIPE
    loss = _loss(arguments)
    own |= {} if loss == _PRESET_LOSS.get(preset, "chain") else {"cross_entropy": loss}
    if preset != "te" or not (graphs or precision == "fp8"):
        return {"preset": preset, **own} if own else preset
    found: dict[str, Any] = {"preset": preset, **own}
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


def _unfused(arguments: MegatronArguments, preset: str) -> dict[str, Any]:
    """Return the fusions that are switched off, as far as the generation has them.

    NVIDIA/Megatron-LM megatron/training/arguments.py, core_transformer_config_from_args: of the activation's two
    switches the one of the model's own activation counts.
    """
    if arguments.has("no-persist-layer-norm") and preset != "te" and not _is_rmsnorm(arguments):
        arguments.flag("no-persist-layer-norm")
        arguments.note(
            f"{arguments.key('no-persist-layer-norm')} is not priced: Apex's other kernel for LayerNorm is slower"
        )
    gated = arguments.flag("swiglu")
    switches = {**_SWITCHES, f"no-bias-{'swiglu' if gated else 'gelu'}-fusion": "bias_activation"}
    software = PRESETS[preset]
    off = [fusion for name, fusion in switches.items() if arguments.flag(name) and software.without(fusion) != software]
    if not gated and arguments.flag("disable-bias-linear") and not arguments.flag("quick-geglu"):
        off = [fusion for fusion in off if fusion != "bias_activation"]  # GeLU alone is one kernel either way
    if arguments.flag("use-torch-fsdp2"):  # which has no buffers to add into, and needs the switch
        off = [fusion for fusion in off if fusion != "gradient_accumulation"]
    if not arguments.has("position-embedding-type", "use-rotary-position-embeddings"):
        off = [fusion for fusion in off if fusion != "rope"]  # positions are learned by default
    return {"unfused": sorted(off)} if off else {}


def _is_rmsnorm(arguments: MegatronArguments) -> bool:
    return (arguments.text("normalization") or "").lower() == "rmsnorm"


def _softmax(arguments: MegatronArguments, preset: str) -> dict[str, Any]:
    """Return PyTorch's kernels of the softmax, where Megatron's own is switched off and flash attention has none.

    NVIDIA/Megatron-LM megatron/core/fusions/fused_softmax.py (forward_torch_softmax). Scores were in fp32 by default
    while --no-query-key-layer-scaling was there to switch that off (until 2023).
    """
    scaled = any(arguments.flag(name) for name in ("apply-query-key-layer-scaling", "attention-softmax-in-fp32"))
    of_today = arguments.has("transformer-impl", *_CORE)
    in_fp32 = scaled or not (of_today or arguments.flag("no-query-key-layer-scaling"))
    if not arguments.flag("no-masked-softmax-fusion") or PRESETS[preset].flash_attention:
        return {}
    return {"softmax": "fp32" if in_fp32 else "half"}


def _loss(arguments: MegatronArguments) -> str:
    """Return the kernels of the cross-entropy: Megatron fuses them where it is told to, its own way by default."""
    implementation = arguments.text("cross-entropy-fusion-impl") or "native"
    if not arguments.flag("cross-entropy-loss-fusion"):
        return "chain"
    return "fused" if implementation == "te" else "native"


def _generation(arguments: MegatronArguments) -> str:
    """Return the preset, and note why it is taken and what would decide otherwise."""
    implementation = arguments.text("transformer-impl")
    backend = (arguments.text("attention-backend") or "auto").lower()
    flash = [name for name in _FLASH if arguments.flag(name)]
    told = _told_by(arguments, _CORE)
    for name in ("use-mcore-models", "use-te"):
        arguments.flag(name)
    named = "" if implementation is None else f"{arguments.key('transformer-impl')} {implementation}"
    if implementation is None and told:
        implementation, named = _ENGINE, f"{told} is of Megatron core, which runs Transformer Engine by default"
    if implementation == _ENGINE and backend == "unfused":
        return _chosen(arguments, "megatron-2022", f"{arguments.key('attention-backend')} unfused keeps the scores")
    if implementation == _ENGINE:
        return _chosen(arguments, "te", named)
    if flash:
        return _chosen(arguments, "megatron-2023", f"{arguments.key(flash[0])} without Transformer Engine")
    if implementation == "local":
        return _chosen(arguments, "megatron-2022", named)
    for preset, options in (("megatron-2022", _OF_2022), ("megatron-2021", _OF_2021)):
        told = _told_by(arguments, options)
        if told and told == arguments.key("deepspeed"):
            return _chosen(arguments, preset, "Megatron-DeepSpeed has the kernels of that year")
        if told:
            return _chosen(arguments, preset, f"{told} is of that year, and nothing of a later one is given")
    return _chosen(arguments, "te", "no argument tells the generation, and that is today's")


def _told_by(arguments: MegatronArguments, options: tuple[str, ...]) -> str:
    """Return how the file writes the first of some options that it gives; empty where it gives none."""
    return next((arguments.key(name) for name in options if arguments.has(name)), "")


def _chosen(arguments: MegatronArguments, preset: str, reason: str) -> str:
    others = ", ".join(f"software={other}" for other in _GENERATIONS if other != preset)
    arguments.note(f"software: {preset}, since {reason}; where the job runs another generation: --set {others}")
    return preset
