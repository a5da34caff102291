"""A transformer of two blocks, small enough to know every size by heart."""

from simgpu.config import load_cases
from simgpu.lower import lower

MODEL = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 256}
TOKENS = 32

QKV, OUT, GATE_UP, DOWN, NORM = 64 * 192, 64 * 64, 64 * 256, 128 * 64, 64  # elements of a block's weights
BLOCK = QKV + OUT + GATE_UP + DOWN + 2 * NORM
EMBEDDING = 256 * 64
HEAD = EMBEDDING + NORM
ALL = 2 * BLOCK + EMBEDDING + HEAD
STREAM = 2 * TOKENS * 64  # bytes of the residual stream in bf16
assert (BLOCK, EMBEDDING, HEAD, ALL, STREAM) == (41088, 16384, 16448, 115008, 4096)


def tiny(*, model=None, training=None, software=None, gpus=2, nodes=1, **parallel):
    """Two micro-batches of 32 tokens on dgx-a100 nodes; ``zero``, ``ddp``, ... are option blocks.

    Its kernels are so short that every run would be launch-bound: the CPU takes no time unless asked to.
    """
    blocks = ("zero", "ddp", "fsdp", "distributed_optimizer")
    options = {name: parallel.pop(name) for name in blocks if name in parallel}
    (case,) = load_cases(
        {
            "name": "tiny",
            "model": {**MODEL, **(model or {})},
            "cluster": {"topology": "dgx-a100", "nodes": nodes, "gpus": gpus},
            "training": {
                "sequence_length": TOKENS,
                "micro_batch_size": 1,
                "gradient_accumulation": 2,
                **(training or {}),
            },
            "parallel": parallel,
            "software": {"host_issue_ns": 0, **(software or {})},
            **options,
        }
    )
    return case


def roles(**wanted):
    """Lower a tiny case; return its roles, one per stage."""
    return program(**wanted).roles


def program(**wanted):
    """Lower a tiny case."""
    case = tiny(**wanted)
    return lower(case.cluster, case.model, case.training, case.strategy, software=case.software)
