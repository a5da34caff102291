"""A field in the wrong block, or a kind of data parallelism in the wrong place, is told where it belongs."""

import pytest

from simgpu.config import load_cases
from simgpu.errors import ScenarioError

BASE = {
    "model": {"layers": 8, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 256},
    "cluster": {"topology": "dgx-a100", "gpus": 8},
    "training": {"sequence_length": 32, "micro_batch_size": 1},
    "parallel": {},
}


@pytest.mark.parametrize(
    ("block", "name", "value", "fix"),
    [
        ("parallel", "fsdp", {"forward_prefetch": True},
         "write fsdp at the top level, beside parallel, and set parallel.data_parallel: fsdp"),
        ("training", "ddp", {"bucket_cap_mb": 25},
         "write ddp at the top level, beside training, and set parallel.data_parallel: ddp"),
        ("parallel", "zero", {"overlap_comm": True},
         "write zero at the top level, beside parallel, and set parallel.data_parallel: zero1, zero2 or zero3"),
        ("parallel", "zero3", {},
         "write zero at the top level, beside parallel, and set parallel.data_parallel: zero3"),
        ("parallel", "hsdp", {"shard_size": 4},
         "write fsdp at the top level, beside parallel, and set parallel.data_parallel: hsdp"),
        ("parallel", "fsdp", True, "set parallel.data_parallel: fsdp"),
        ("parallel", "zero", 3, "set parallel.data_parallel: zero3"),
        ("parallel", "fsdp2", True, "set parallel.data_parallel: fsdp"),
        ("parallel", "ddp", 4,
         "use parallel.dp for the number of replicas, and parallel.data_parallel: ddp for the kind"),
        ("zero", "stage", 2, "set parallel.data_parallel: zero2"),
        ("parallel", "bucket_cap_mb", 25, "it belongs elsewhere: use ddp.bucket_cap_mb"),
        ("training", "tp", 2, "it belongs elsewhere: use parallel.tp"),
        ("training", "software", "eager", "it belongs elsewhere: write software at the top level, beside training"),
        ("cluster", "network", "free", "it belongs elsewhere: write network at the top level, beside cluster"),
        ("parallel", "parallel", {"tp": 2}, "write its fields right below parallel"),
        ("parallel", "recompute", "full", "it belongs elsewhere: use training.recompute"),
        (None, "nodes", 2, "it belongs elsewhere: use cluster.nodes"),
        (None, "data_parallel", "fsdp", "it belongs elsewhere: use parallel.data_parallel"),
        (None, "hsdp", {"shard_size": 4}, "write fsdp at the top level, and set parallel.data_parallel: hsdp"),
        (None, "zero", 3, "set parallel.data_parallel: zero3, and write below zero only its options"),
        (None, "fsdp", "full_shard", "set parallel.data_parallel: fsdp, and write below fsdp only its options"),
        (None, "parallel", "fsdp", "set parallel.data_parallel: fsdp"),
        ("parallel", "data_parallel", {"fsdp": {}},
         "write the kind alone, such as data_parallel: fsdp, and its options in the block fsdp at the top level"),
        ("parallel", "data_parallel", 8, "use parallel.dp for the number of replicas"),
        ("parallel", "tpp", 8, "did you mean parallel.tp or parallel.pp?"),
    ],
)  # fmt: skip
def test_where_a_field_belongs(block, name, value, fix):
    data = {**BASE, name: value} if block is None else {**BASE, block: {**BASE.get(block, {}), name: value}}
    with pytest.raises(ScenarioError) as caught:
        load_cases(data)
    (issue,) = caught.value.issues
    assert issue.field == (name if block is None else f"{block}.{name}")
    assert issue.fix == fix
