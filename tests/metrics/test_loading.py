"""Memory to read a model, before it is sharded."""

import simgpu
from simgpu.workload.bundled import bundled_model

LLAMA_7B = 6_738_415_616


def report(data_parallel):
    (found,) = simgpu.run(
        {
            "model": "llama-2-7b",
            "cluster": {"topology": "dgx-a100"},
            "training": {"sequence_length": 128, "micro_batch_size": 1, "gradient_accumulation": 1},
            "parallel": {"data_parallel": data_parallel},
        }
    )
    return found


def test_eight_ranks_that_each_read_the_whole_model_need_eight_times_its_fp32():
    assert bundled_model("llama-2-7b").parameters == LLAMA_7B
    found = report("fsdp").loading
    assert found.every_rank_bytes == 8 * 4 * LLAMA_7B
    assert found.first_rank_bytes == 4 * LLAMA_7B
    assert found.gpu_whole_bytes == 4 * LLAMA_7B


def test_what_is_never_sharded_is_never_whole_before_it_is_sharded():
    assert report("ddp").loading.gpu_whole_bytes == 0
