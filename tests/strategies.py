"""Hypothesis strategies: small but whole cases on real machines."""

from hypothesis import strategies as st

from simgpu.config import load_cases
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, global_stages, refusal

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

HOSTS = [
    {"host_issue_ns": 0},
    {"host_issue_ns": 500},
    {"host_issue_ns": "20 us"},
    {"cuda_graphs": True},
    {"cuda_launch_blocking": True, "host_issue_ns": 3000},
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
    microbatches = draw(st.integers(1, 8))
    schedules = [name for name in PIPELINE_SCHEDULES if _fits(name, pp, microbatches)] if pp > 1 else ["1f1b"]
    kinds = ["ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp", "hsdp", "distributed_optimizer"]
    data_parallel = draw(st.sampled_from(kinds)) if dp > 1 else "none"
    return {
        "name": "random",
        "model": {**MODEL, "tied_embeddings": draw(st.booleans())},
        "cluster": {"topology": topology, "nodes": nodes, "gpus": gpus},
        "training": {
            "sequence_length": 128,
            "micro_batch_size": draw(st.integers(1, 2)),
            "gradient_accumulation": microbatches,
            "precision": "fp16",
            "recompute": draw(st.sampled_from(["none", "selective", "full"])),
            **draw(st.sampled_from([{}, {}, {"frozen": 0.5}, {"frozen": ["norm", "mlp"]}, {"lora": {"rank": 4}}])),
        },
        "parallel": {
            "tp": tp,
            "pp": pp,
            "dp": dp,
            "data_parallel": data_parallel,
            "sequence_parallel": tp > 1 and draw(st.booleans()),
            "schedule": draw(st.sampled_from(schedules)),
            "overlap_p2p": draw(st.booleans()),
            "scatter_gather_tensors_in_pipeline": draw(st.booleans()),
            "order": draw(st.permutations(["pp", "dp", "tp"])),
        },
        "software": draw(st.sampled_from(HOSTS)),
        **({"fsdp": {"shard_size": 2}} if data_parallel == "hsdp" else {}),
    }


def _fits(name, pp, microbatches):
    """Whether a schedule accepts the numbers and divides the model."""
    virtual = PIPELINE_SCHEDULES[name].default_virtual
    stages = global_stages(name, ranks=pp, virtual=virtual)
    accepted = refusal(name, ranks=pp, virtual=virtual, microbatches=microbatches) is None
    return accepted and MODEL["layers"] % stages == 0


def case_of(scenario):
    """Return the one case of a scenario mapping."""
    (case,) = load_cases(scenario)
    return case
