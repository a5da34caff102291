"""Linear attention from a ``config.json`` (huggingface/transformers configuration_qwen3_next.py)."""

from __future__ import annotations

from typing import Any

from simgpu.errors import ModelError
from simgpu.workload.delta import DeltaAttention
from simgpu.workload.reading import Reading

_LINEAR, _FULL = "linear_attention", "full_attention"


def delta_of(reading: Reading, layers: int) -> dict[str, Any]:
    """Return the linear attention of a model, the layers that have it, and the gate of the others' output.

    Parameters
    ----------
    reading : Reading
    layers : int

    Returns
    -------
    dict
        Fields of `Model`; a problem is noted for what cannot be.

    Examples
    --------
    >>> keys = {"linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    ...         "linear_value_head_dim": 128}
    >>> delta_of(Reading(keys, "next"), 4)["delta_layers"]
    (0, 1, 2)
    """
    kinds: Any = reading.fields.get("layer_types")
    if isinstance(kinds, list):
        unknown = sorted({str(kind) for kind in kinds} - {_LINEAR, _FULL})
        if unknown:
            reading.problem(
                f"layer_types holds {', '.join(unknown)}, which is not modelled; allowed: {_LINEAR}, {_FULL}"
            )
        linear = tuple(layer for layer, kind in enumerate(kinds[:layers]) if kind == _LINEAR)
    else:
        interval = reading.integer("full_attention_interval", default=4)
        linear = tuple(layer for layer in range(layers) if (layer + 1) % interval)
    sizes = {
        "key_heads": reading.integer("linear_num_key_heads", default=16),
        "value_heads": reading.integer("linear_num_value_heads", default=32),
        "key_dim": reading.integer("linear_key_head_dim", default=128),
        "value_dim": reading.integer("linear_value_head_dim", default=128),
        "taps": reading.integer("linear_conv_kernel_dim", default=4),
    }
    try:
        return {"delta": DeltaAttention(**sizes), "delta_layers": linear, "output_gate": True}
    except ModelError as error:
        reading.problem(str(error))
        return {}
