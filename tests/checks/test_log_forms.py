"""How training programs print their steps: lines as they write them, and the figure that is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.training_log import read_training_log

LINES = {
    "Megatron-LM": (
        " [2025-03-01 10:00:00.123456] iteration        1/     500 | consumed samples:          256 | elapsed time per "
        "iteration (ms): 5010.5 | throughput per GPU (TFLOP/s/GPU): 401.2 | global batch size:   256 |",
        ("step_s", 5.0105),
    ),
    "NeMo 1": (
        "Epoch 0: :   1%| | 1/100 [00:05<09:00, v_num=0, reduced_train_loss=10.9, global_step=1.0, "
        "train_step_timing in s=5.650]",
        ("step_s", 5.65),
    ),
    "NeMo 2": (
        "Training epoch 0, iteration 3/99 | lr: 2e-05 | global_batch_size: 128 | global_step: 3 | "
        "train_step_timing in s: 7.35 | consumed_samples: 512",
        ("step_s", 7.35),
    ),
    "torchtitan": (
        "[titan] 2025-06-01 12:00:01 - root - INFO - step: 10  loss:  8.2  memory: 40.20GiB(42.3%)  tps: 7,101  "
        "tflops: 412.00  mfu: 41.66%",
        ("tokens_per_s_per_gpu", 7101),
    ),
    "torchtune": ("Step 7 | loss:1.2 lr:2e-05 tokens_per_second_per_gpu:2511.5", ("tokens_per_s_per_gpu", 2511.5)),
    "nanotron": (
        "iteration: 5 / 100 | consumed_tokens: 1.05M | elapsed_time_per_iteration_ms: 1.21K | tokens_per_sec: 866K | "
        "tokens_per_sec_per_gpu: 108K | global_batch_size: 1.02K | lm_loss: 10.8",
        ("step_s", 1.21),
    ),
    "picotron": (
        "[rank 0] Step: 9 | Loss: 9.1 | Global batch size: 1.0M | Tokens/s:  81.2K | Tokens/s/GPU: 10.1K | MFU: 38.1%",
        ("tokens_per_s_per_gpu", 10100),
    ),
    "Axolotl": (
        "{'loss': 1.2, 'grad_norm': 0.3, 'memory/max_mem_active(gib)': 30.1, 'tokens_per_second_per_gpu': 5040.0}",
        ("tokens_per_s_per_gpu", 5040),
    ),
    "OLMo": ("    throughput/device/tokens_per_second=12,345", ("tokens_per_s_per_gpu", 12345)),
    "Composer": ("\t Train throughput/device/tokens_per_sec: 11520.1", ("tokens_per_s_per_gpu", 11520.1)),
    "nanoGPT": ("iter 10: loss 4.2, time 135.25ms, mfu 17.9%", ("step_s", 0.13525)),
    "DeepSpeed": (
        "[INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=53.1, "
        "CurrSamplesPerSec=52.5, MemAllocated=4.3GB",
        ("samples_per_s", 52.5),
    ),
    "Transformers": (
        "{'train_runtime': 750.1, 'train_samples_per_second': 4.366, 'epoch': 3.0}", ("samples_per_s", 4.366)
    ),
    "a progress bar": ("  5%|▏ | 30/600 [04:05<1:18:00,  8.25s/it]", ("step_s", 8.25)),
}  # fmt: skip


@pytest.mark.parametrize(("line", "figure"), LINES.values(), ids=LINES.keys())
def test_forms(line: str, figure: tuple[str, float], tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(f"{line}\n" * 5, encoding="utf-8")
    found = read_training_log(path)
    assert (found.quantity, found.value) == (figure[0], pytest.approx(figure[1]))


@pytest.mark.parametrize(
    "text", ["", "hello\n", "Epoch 1 | iter 8 step 2 | loss train: 1.2 | iter time: 310.1 ms (step)\n"]
)
def test_nothing_about_steps(text: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match="does not say how long a step takes"):
        read_training_log(path)


@pytest.mark.parametrize(
    "line", ["step time: -3 s", "step time: 1e400 s", "elapsed time per iteration (ms): 1e300", "tps: 1e-300",
             "train_step_timing in s=-5.6", "step time: 0 s", f"step time: {'9' * 5000} s"]
)  # fmt: skip
def test_values_that_no_step_has_are_left_out(line: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"does not say how long a step takes, only .* of "):
        read_training_log(path)
    path.write_text(f"{line}\n" * 5 + "step time: 2.5 s\n", encoding="utf-8")
    assert read_training_log(path).value == 2.5


@pytest.mark.parametrize(
    ("rates", "batch"),
    [
        ("'train_samples_per_second': 6.4, 'train_steps_per_second': 0.2", 32),
        ("'train_samples_per_second': 1.94, 'train_steps_per_second': 0.03", None),  # 64 or 65, as it is rounded
        ("'train_samples_per_second': 6.4, 'train_steps_per_second': 0.0", None),
        ("'train_samples_per_second': 6.4", None),
    ],
)
def test_two_rates_tell_the_batch_where_rounding_leaves_one(rates: str, batch: int | None, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("{'train_runtime': 500.0, " + rates + "}\n", encoding="utf-8")
    assert read_training_log(path).global_batch_size == batch
