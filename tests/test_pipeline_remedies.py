"""What is suggested where a pipeline does not fit: schedules that keep less, and only what the schedule accepts."""

import pytest

from simgpu.config import load_cases
from simgpu.remedies import memory_remedies


def texts(microbatches, micro=2, **parallel):
    (case,) = load_cases(
        {
            "name": "pipeline",
            "model": "gpt2",
            "cluster": {"topology": "dgx-a100", "gpus": 4},
            "training": {"sequence_length": 64, "micro_batch_size": micro, "gradient_accumulation": microbatches},
            "parallel": {"pp": 2, "dp": 2, "data_parallel": "fsdp", **parallel},
        }
    )
    found = memory_remedies(case)
    for remedy in found:
        strategy, training = remedy.case.strategy, remedy.case.training
        assert strategy.virtual_stages == case.strategy.virtual_stages
        assert training.micro_batch_size * training.accumulation == micro * microbatches
    return [remedy.text for remedy in found if " with " not in remedy.text]


@pytest.mark.parametrize(
    ("schedule", "leaner"), [("gpipe", "1f1b"), ("looped_bfs", "interleaved_1f1b"), ("zbh2", "zbh1")]
)
def test_a_schedule_that_keeps_less_on_the_same_ranks(schedule, leaner):
    assert texts(4, schedule=schedule)[0] == f"parallel.schedule: {leaner}"


def test_only_what_the_schedule_accepts():
    """Two ranks: interleaved 1F1B takes 3 micro-batches and 8, and neither 5 nor 9."""
    assert "training.micro_batch_size: 1" in texts(4, schedule="interleaved_1f1b")
    assert "training.micro_batch_size: 1" not in texts(3, schedule="interleaved_1f1b", micro=3)
    assert not any("schedule" in text for text in texts(5, schedule="looped_bfs"))
