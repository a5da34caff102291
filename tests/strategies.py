"""Hypothesis strategies: small but whole cases on real machines."""

from hypothesis import strategies as st

from simgpu.config import load_cases

MODEL = {"layers": 4, "hidden": 256, "heads": 8, "kv_heads": 8, "ffn": 512, "vocab": 1024}
LAYOUTS = [
    (1, 1, 2),
    (1, 1, 8),
    (2, 1, 2),
    (4, 2, 1),
    (2, 2, 2),
    (1, 4, 2),
    (1, 2, 4),
    (8, 1, 1),
    (8, 2, 1),
    (4, 2, 2),
    (2, 4, 2),
]


@st.composite
def scenarios(draw):
    """A scenario mapping of 2 to 16 GPUs with any product of tp, pp and dp."""
    tp, pp, dp = draw(st.sampled_from(LAYOUTS))
    gpus = tp * pp * dp
    topologies = ["dgx-a100", "dgx-h100", "8x-a100-single-nic", "dgx-1v"]
    topology = draw(st.sampled_from(topologies + (["4x-rtx4090-pcie"] if gpus <= 4 else [])))
    per_node = 8 if topology != "4x-rtx4090-pcie" else 4
    spread = gpus >= 2 and gpus <= 8 and draw(st.booleans())
    nodes = 2 if spread or gpus > per_node else 1
    strategies = ["ddp", "zero1", "zero2", "zero3", "fsdp"] if dp > 1 else ["none"]
    return {
        "name": "random",
        "model": {**MODEL, "tied_embeddings": draw(st.booleans())},
        "cluster": {"topology": topology, "nodes": nodes, "gpus": gpus},
        "training": {
            "sequence_length": 128,
            "micro_batch_size": draw(st.integers(1, 2)),
            "gradient_accumulation": draw(st.integers(1, 5)),
            "precision": "fp16",
            "recompute": draw(st.sampled_from(["none", "selective", "full"])),
        },
        "parallel": {
            "tp": tp,
            "pp": pp,
            "dp": dp,
            "data_parallel": draw(st.sampled_from(strategies)),
            "sequence_parallel": tp > 1 and draw(st.booleans()),
            "schedule": draw(st.sampled_from(["1f1b", "gpipe"])),
            "overlap_p2p": draw(st.booleans()),
            "order": draw(st.permutations(["pp", "dp", "tp"])),
        },
    }


def case_of(scenario):
    """Return the one case of a scenario mapping."""
    (case,) = load_cases(scenario)
    return case
