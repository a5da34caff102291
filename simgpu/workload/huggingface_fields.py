"""What readers of a Hugging Face ``config.json`` share: activations, the width of a head, and windows."""

from __future__ import annotations

from typing import Any

from simgpu.workload.reading import Reading

GELUS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python")
GATED = {"silu": "swiglu", "swish": "swiglu", "swigluoai": "swiglu"} | dict.fromkeys(GELUS, "geglu")
"""MLPs with a gate, by ``hidden_act``."""
PLAIN = dict.fromkeys(GELUS, "gelu") | {"relu": "relu", "relu2": "relu", "silu": "gelu", "xielu": "gelu"}
"""MLPs of two matrices; the activations are kernels of one pass, whatever their formula."""
CAPS = {"capped_logits": "final_logit_softcapping", "capped_scores": "attn_logit_softcapping"}
"""Keys of soft caps, by the field of `simgpu.workload.scales.Scales`."""
_FULL, _SLIDING = "full_attention", "sliding_attention"


def head_dim(reading: Reading, hidden: int, heads: int, default: int | None = None) -> int:
    """Return the width of a head: ``head_dim``, the family's default, or hidden / heads.

    Examples
    --------
    >>> head_dim(Reading({}, "m"), 64, 4), head_dim(Reading({}, "m"), 64, 4, 128)
    (16, 128)
    """
    key, value = reading.get("head_dim")
    if value is not None or (default is not None and key not in reading.fields):
        return reading.integer("head_dim", default=default)
    if hidden % heads and not reading.problems:
        reading.problem(f"hidden size {hidden} is not a multiple of {heads} heads, and head_dim is absent")
    return max(hidden // heads, 1)


def window_layers(reading: Reading, layers: int, pattern: int | None) -> tuple[int, ...] | None:
    """Return which layers have a sliding window: those of ``layer_types``, or all but every ``pattern``-th.

    Parameters
    ----------
    reading : Reading
    layers : int
    pattern : int or None
        1 for windows in every layer; None for none where no key says.

    Returns
    -------
    tuple of int or None
        Indices; None, with a problem noted, when ``layer_types`` holds other kinds.

    Examples
    --------
    >>> window_layers(Reading({}, "m"), 7, 6), window_layers(Reading({"layer_types": ["full_attention"]}, "m"), 1, 1)
    ((0, 1, 2, 3, 4, 6), ())
    """
    kinds: Any = reading.fields.get("layer_types")
    if kinds is not None:
        if not isinstance(kinds, list):
            unknown = [repr(kinds)]
        else:
            unknown = sorted({str(kind) for kind in kinds} - {_FULL, _SLIDING})
        if unknown:
            allowed = f"allowed: {_FULL}, {_SLIDING}"
            reading.problem(f"layer_types holds {', '.join(unknown)}, which is not modelled; {allowed}")
            return None
        return tuple(layer for layer, kind in enumerate(kinds[:layers]) if kind == _SLIDING)
    if pattern is None:
        return ()
    return tuple(layer for layer in range(layers) if pattern == 1 or (layer + 1) % pattern)
