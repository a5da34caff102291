"""What Megatron's arguments recompute in backward."""

from __future__ import annotations

from typing import Any

from simgpu.io.foreign.megatron_arguments import MegatronArguments


def recompute_settings(arguments: MegatronArguments) -> dict[str, Any]:
    """Return what is recomputed, and in how many layers.

    Parameters
    ----------
    arguments : MegatronArguments

    Returns
    -------
    dict
        Scenario fields; none where nothing is asked for.

    Raises
    ------
    ScenarioError
        For a granularity that is not known.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> from simgpu.io.foreign.ledger import Ledger
    >>> ledger = Ledger(Document(source="a.args", data={"--recompute-activations": True}))
    >>> recompute_settings(MegatronArguments(ledger, {"recompute-activations": "--recompute-activations"}))
    {'training.recompute': 'selective'}
    """
    field = "training.recompute"
    words = arguments.text("recompute-granularity", field=field)
    method = arguments.text("recompute-method")
    layers = arguments.integer("recompute-num-layers", field="training.recompute_layers", least=0)
    short, old = arguments.flag("recompute-activations"), arguments.flag("checkpoint-activations")
    old = old or (arguments.flag("deepspeed-activation-checkpointing") and arguments.has("checkpoint-activations"))
    modules = arguments.text("recompute-modules")
    asked = [arguments.key("recompute-activations")] if short else []
    if words == "full":
        asked.append(f"{arguments.key('recompute-granularity')} full")
    if arguments.has("cpu-offloading") and (words or short):
        asked.append(arguments.key("cpu-offloading"))
    if len(asked) > 1:
        arguments.leave_open(field, f"{', '.join(asked)} are all given, which Megatron refuses together")
    if field in arguments.ledger.open:
        return {}
    if old:
        return {field: "full"}
    if short or words == "selective":
        return {field: _selective(arguments, modules)}
    if words is None:
        return {}
    if words != "full":
        arguments.refuse("recompute-granularity", "is not known", allowed="full, selective")
    if method == "block":
        if layers == 0:
            return {field: "none"}
        return {field: "full", "training.recompute_layers": layers}
    if layers is not None and layers > 1:
        arguments.note(f"{layers} layers are recomputed together: the time is the same, the peak here is a layer's")
    return {field: "full"}


def _selective(arguments: MegatronArguments, modules: str | None) -> str:
    """Return what recomputing only some modules is here: the attention core, or else nothing."""
    if modules is None:
        return "selective"
    names = modules.strip("[]\"' ").replace(",", " ").split()
    others = [name for name in names if name != "core_attn"]
    if others:
        arguments.note(
            f"{arguments.key('recompute-modules')}: recomputation of {', '.join(others)} is not simulated: more memory "
            "and less time here than in the job"
        )
    return "selective" if "core_attn" in names else "none"
