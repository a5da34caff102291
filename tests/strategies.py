"""Hypothesis strategies: small but whole cases on real machines."""

from hypothesis import strategies as st

from simgpu.config import load_cases
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, global_stages, refusal

MODEL = {"layers": 4, "hidden": 256, "heads": 8, "kv_heads": 8, "ffn": 512, "vocab": 1024}
EXPERTS = {"experts": 8, "experts_per_token": 2, "expert_ffn": 128}
LAYOUTS = [  # tp, pp, cp, dp
    (1, 1, 1, 2),
    (1, 1, 1, 8),
    (2, 1, 1, 2),
    (4, 2, 1, 1),
    (2, 2, 1, 2),
    (1, 4, 1, 2),
    (1, 2, 1, 4),
    (8, 1, 1, 1),
    (8, 2, 1, 1),
    (4, 2, 1, 2),
    (2, 4, 1, 2),
    (1, 1, 2, 4),
    (2, 1, 2, 2),
    (1, 2, 2, 2),
    (1, 1, 4, 1),
    (2, 1, 4, 1),
    (1, 4, 2, 1),
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
    """A scenario mapping of 2 to 16 GPUs with any product of tp, pp, cp, ep and dp."""
    tp, pp, cp, dp = draw(st.sampled_from(LAYOUTS))
    gpus = tp * pp * cp * dp
    topologies = ["dgx-a100", "dgx-h100", "8x-a100-single-nic", "dgx-1v"]
    topology = draw(st.sampled_from(topologies + (["4x-rtx4090-pcie"] if gpus <= 4 else [])))
    per_node = 8 if topology != "4x-rtx4090-pcie" else 4
    spread = gpus >= 2 and gpus <= 8 and draw(st.booleans())
    nodes = 2 if spread or gpus > per_node else 1
    microbatches = draw(st.integers(1, 8))
    schedules = [name for name in PIPELINE_SCHEDULES if _fits(name, pp, microbatches)] if pp > 1 else ["1f1b"]
    kinds = ["ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp", "hsdp", "distributed_optimizer"]
    data_parallel = draw(st.sampled_from(kinds if dp > 1 else kinds[:-2] + kinds[-1:])) if dp * cp > 1 else "none"
    experts = draw(st.booleans())
    ep, expert_tp = draw(st.sampled_from(_expert_degrees(tp, cp, dp, data_parallel))) if experts else (1, None)
    apart = ep > 1 or expert_tp is not None
    axes = draw(st.permutations(["pp", "dp", "tp"] if cp == 1 else ["pp", "dp", "cp", "tp"]))
    return {
        "name": "random",
        "model": {**MODEL, "tied_embeddings": draw(st.booleans()), **(EXPERTS if experts else {})},
        "cluster": {"topology": topology, "nodes": nodes, "gpus": gpus},
        "training": {
            "sequence_length": 128,
            "micro_batch_size": draw(st.integers(1, 2)),
            "gradient_accumulation": microbatches,
            "precision": "fp16",
            "recompute": draw(st.sampled_from(["none", "selective", "full"])),
            **draw(st.sampled_from([{}, {}, {"frozen": 0.5}, {"frozen": ["norm"]}, {"lora": {"rank": 4}}])),
            **({"moe_imbalance": draw(st.sampled_from([1.0, 1.5]))} if experts else {}),
        },
        "parallel": {
            "tp": tp,
            "pp": pp,
            "dp": dp,
            "cp": cp,
            "cp_comm_type": draw(st.sampled_from(["p2p", "a2a", "all_gather"])),
            "ep": ep,
            **({} if expert_tp is None else {"expert_tp": expert_tp}),
            "data_parallel": data_parallel,
            "sequence_parallel": tp > 1 and (apart or draw(st.booleans())),
            "schedule": draw(st.sampled_from(schedules)),
            "overlap_p2p": draw(st.booleans()),
            "scatter_gather_tensors_in_pipeline": draw(st.booleans()),
            "order": ["pp", *[axis for axis in axes if axis not in ("pp", "tp")], "tp"] if apart else axes,
        },
        "software": draw(st.sampled_from(HOSTS)),
        **_offload(draw, data_parallel),
        **({"fsdp": {"shard_size": 2}} if data_parallel == "hsdp" else {}),
    }


def _expert_degrees(tp, cp, dp, data_parallel):
    """Pairs of ep and expert_tp that the ranks have room for."""
    found = [(ep, None) for ep in (1, 2, 4, 8) if dp * cp % ep == 0]
    found += [(ep, 1) for ep in (1, 2, 4, 8) if tp > 1 and dp * cp > 1 and dp * cp * tp % ep == 0]
    if data_parallel == "zero3":  # DeepSpeed has it without context parallelism and with whole experts
        found = [(ep, columns) for ep, columns in found if ep == 1 or (cp == 1 and (tp == 1 or columns == 1))]
    copies = dp // 2 if data_parallel == "hsdp" else 1  # sub-groups of two
    return [
        (ep, columns) for ep, columns in found if (dp * cp * (1 if columns is None else tp) // ep) % max(copies, 1) == 0
    ]


def _offload(draw, data_parallel):
    """Options that keep states on the host, now and then."""
    cpu = {"device": "cpu", "pin_memory": draw(st.booleans())}
    if not draw(st.booleans()):
        return {}
    if data_parallel.startswith("zero"):
        return {"zero": {"offload_optimizer": cpu} | ({"offload_param": cpu} if data_parallel == "zero3" else {})}
    return {"fsdp": {"cpu_offload": True}} if data_parallel in ("fsdp1", "fsdp") else {}


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
