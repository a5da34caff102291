"""A key that a file gives twice: the last counts where PyYAML reads the file; OmegaConf and DeepSpeed refuse it."""

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.yaml_file import parse_yaml
from tests.imports.reading import read

NEOX = "num_layers: 12\nhidden_size: 768\nseq_length: 2048\nnum_attention_heads: 12\npipe_parallel_size: 1\n"
NANOTRON = (
    "parallelism: {dp: 2, tp: 1, pp: 1}\ntokens:\n  micro_batch_size: 1\n  sequence_length: 512\n"
    "  micro_batch_size: 4\nmodel:\n  model_config: {is_llama_config: true, num_hidden_layers: 2, hidden_size: 64, "
    "num_attention_heads: 4, intermediate_size: 128, vocab_size: 100}\n"
)
NEMO = "trainer: {devices: 8, devices: 4}\nmodel: {tensor_model_parallel_size: 1}\n"
TUNE = (
    "model:\n  _component_: torchtune.models.llama3.llama3_8b\nbatch_size: 2\nbatch_size: 4\nepochs: 1\n"
    "optimizer:\n  _component_: torch.optim.AdamW\n"
)
OUMI = (
    "model: {model_name: gpt2}\ntraining:\n  trainer_type: TRL_SFT\n  per_device_train_batch_size: 1\n"
    "  per_device_train_batch_size: 2\n"
)
FOUNDRY = "max_seq_len: 512\nmax_seq_len: 1024\nglobal_train_batch_size: 8\nmodel: {name: mpt_causal_lm}\n"


def test_the_last_counts_in_yaml_1_1_and_blocks_are_not_merged() -> None:
    file = parse_yaml("a: {b: 1, c: 2}\nd: 3\na: {b: 5}\n", "x.yaml", pyyaml=True)
    assert (file.data, dict(file.twice)) == ({"a": {"b": 5}, "d": 3}, {("a",): (1, 3)})
    assert parse_yaml("a: 1\na: 2\na: 3\n", "x.yaml", pyyaml=True).twice == {("a",): (1, 3)}
    with pytest.raises(ScenarioError, match=r"x\.yaml:3: a: is given twice, first in line 1"):
        parse_yaml("a: {b: 1, c: 2}\nd: 3\na: {b: 5}\n", "x.yaml")


@pytest.mark.parametrize(
    ("text", "suffix", "field", "note"),
    [
        (NANOTRON, ".yaml", "training.micro_batch_size",
         "tokens.micro_batch_size is given twice, in lines 3 and 5 of run.yaml: the last counts, as PyYAML reads it"),
        (NEOX + "train_micro_batch_size_per_gpu: 1\ntrain_micro_batch_size_per_gpu: 4\n", ".yml",
         "training.micro_batch_size", "train_micro_batch_size_per_gpu is given twice, in lines 6 and 7 of run.yml: "
         "the last counts, as PyYAML reads it"),
    ],
)  # fmt: skip
def test_a_note_names_both_lines(tmp_path: Path, text: str, suffix: str, field: str, note: str) -> None:
    reading = read(tmp_path, text, suffix)
    assert reading.settings[field] == 4
    assert note in reading.notes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NEMO, r"run\.yaml:1: trainer\.devices: is given twice, first in line 1"),
        (TUNE, r"run\.yaml:4: batch_size: is given twice, first in line 3"),
        (OUMI, r"run\.yaml:5: training\.per_device_train_batch_size: is given twice, first in line 4"),
        (FOUNDRY, r"run\.yaml:2: max_seq_len: is given twice, first in line 1"),
    ],
)
def test_programs_with_omegaconf_refuse_it(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        read(tmp_path, text, ".yaml")
