"""Two small models, and their units in a software generation."""

from typing import NamedTuple

from simgpu.workload.families import model_units
from simgpu.workload.inline import model_from_fields
from simgpu.workload.op import MemoryBound
from simgpu.workload.software import PRESETS
from simgpu.workload.training import Training
from simgpu.workload.unit import Unit

GPT = model_from_fields(
    {"layers": 2, "hidden": 512, "heads": 8, "ffn": 2048, "vocab": 1024, "positions": "learned", "max_positions": 4096}
    | {"norm": "layernorm", "mlp": "gelu"}
    | dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias", "tied_embeddings"), True),
    "gpt-like",
)
LLAMA = model_from_fields(
    {"layers": 2, "hidden": 512, "heads": 8, "kv_heads": 2, "ffn": 1024, "vocab": 1024}, "llama-like"
)
SEQUENCE, BATCH = 256, 2
TOKENS, HIDDEN = SEQUENCE * BATCH, 512


class Units(NamedTuple):
    """The parts of a model whose blocks are all alike."""

    embedding: Unit
    block: Unit
    head: Unit


def alike(model, training, **layout):
    built = model_units(model, training, **layout)
    return Units(built.embedding, built.layers[0].units[0], built.head)


def units(software, model=LLAMA, tp=1, sequence_parallel=False, gathered_weights=False, buffers=False, **changes):
    recipe = {"sequence_length": SEQUENCE, "micro_batch_size": BATCH, "accumulation": 1} | changes
    if isinstance(software, str):
        software = PRESETS[software]
    return alike(
        model,
        Training(**recipe),
        tp=tp,
        sequence_parallel=sequence_parallel,
        software=software,
        gathered_weights=gathered_weights,
        gradient_buffers=buffers,
    )


def moved(items, beginning=""):
    """Bytes and kernels of the memory-bound ops whose name begins so."""
    found = [item for item in items if isinstance(item, MemoryBound) and item.name.startswith(beginning)]
    return sum(op.bytes for op in found), sum(op.kernels for op in found)
