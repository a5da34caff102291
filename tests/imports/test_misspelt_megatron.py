"""A misspelt argument is named by the message about what the run lacks without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError
from simgpu.io.foreign.key_account import KeyAccount
from tests.imports.reading import read

LINE = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 "
    "--seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 --bf16 "
)


@pytest.mark.parametrize(
    ("arguments", "wrong", "meant"),
    [
        ("--micro-batch-sise 1", "--micro-batch-sise", "--micro-batch-size"),
        ("--micro-batch-size 1 --use-distributed-optimizer --overlap-grad-reduc --overlap-param-gather",
         "--overlap-grad-reduc", "--overlap-grad-reduce"),
        ("--micro-batch-size 1 --use-distributed-optimiser --overlap-grad-reduce --overlap-param-gather",
         "--use-distributed-optimiser", "--use-distributed-optimizer"),
        ("--micro-batch-size 1 --tensor-model-parallel-size 2 --tp-comm-overlap --sequence-paralel",
         "--sequence-paralel", "--sequence-parallel"),
    ],
)  # fmt: skip
def test_the_refusal_names_it(tmp_path: Path, arguments: str, wrong: str, meant: str) -> None:
    path = tmp_path / "run.sh"
    path.write_text(LINE + arguments)
    with pytest.raises(ScenarioError) as told:
        import_run([path], RunAnswers(topology="dgx-a100"))
    assert wrong in str(told.value)
    assert f"did you mean {meant}?" in str(told.value)


def test_a_value_that_is_wrong_says_nothing_of_other_keys(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(LINE + "--micro-batch-size 1 --use-distributed-optimiser --optimizer lamb")
    with pytest.raises(ScenarioError) as told:
        import_run([path], RunAnswers(topology="dgx-a100"))
    assert "did you mean" not in str(told.value)


def test_the_right_name_may_stand_beside_the_wrong_one(tmp_path: Path) -> None:
    text = (
        "trainer: {devices: 8, precision: bf16}\nmodel: {tensor_model_parallel_size: 1, micro_batch_size: 2, "
        "num_layers: 2, hidden_size: 64, num_attention_heads: 2, encoder_seq_length: 64, micro_batch_sise: 3}\n"
    )
    assert (
        read(tmp_path, text, ".yaml").not_understood == "model.micro_batch_sise (did you mean model.micro_batch_size?)"
    )


def test_only_names_that_were_looked_for_in_vain_are_meant() -> None:
    account = KeyAccount({"a.sequence_paralel": True, "a.sequence_parallel": True})
    account.ask("a.sequence_parallel")
    assert account.misspelt("needs --sequence-parallel") == []
