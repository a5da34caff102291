"""Search spaces whose every strategy is simulated in a fraction of a second."""

from simgpu.executor.point import play_point, point_task

MODEL = {"layers": 4, "hidden": 1024, "heads": 8, "kv_heads": 8, "ffn": 4096, "vocab": 8192}

SMALL = {
    "name": "a small space",
    "model": MODEL,
    "cluster": {"topology": "dgx-a100", "gpus": 4},
    "training": {"sequence_length": 512, "global_batch_size": 16},
    "search": {
        "tp": [1, 2],
        "pp": [1, 2, 4],
        "virtual_stages": [1, 2],
        "data_parallel": ["ddp", "zero1", "zero3", "distributed_optimizer"],
        "micro_batch_size": [1, 2],
        "recompute": ["none", "full"],
        "schedule": ["1f1b", "interleaved_1f1b", "zbv"],
        "order": [["pp", "dp", "tp"]],
    },
}


def simulated(space, candidate):
    """Return what a sweep's point has of a candidate."""
    return play_point(point_task(candidate.data(space), space.folder, fold=True, digests={}))


def exhaustive(space, candidates):
    """Return step and index of the fastest candidate that fits, all simulated; of equally fast ones the first."""
    rows = [(one.index, simulated(space, one)) for one in candidates]
    return min((row["numbers"]["step_time_ns"], index) for index, row in rows if row["numbers"].get("fits"))
