"""Numbers as the programs read them whose files they are: PyYAML's, and none of thousands of digits."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.document import parse_document
from simgpu.io.yaml_file import parse_yaml
from tests.imports.reading import read

NINES = "9" * 5000


@pytest.mark.parametrize(
    ("written", "of_pyyaml", "of_ours"),
    [
        ("010", 8, 10), ("-010", -8, -10), ("0x10", 16, 16), ("08", "08", 8), ("0o10", "0o10", 8), ("1:30", 90, "1:30"),
        ("1_000", 1000, 1000), ("'010'", "010", "010"), ("0", 0, 0), ("1:90", "1:90", "1:90"), ("0.5", 0.5, 0.5),
    ],
)  # fmt: skip
def test_integers(written: str, of_pyyaml: object, of_ours: object) -> None:
    text = f"size: {written}\n"
    assert parse_document(text, "a.yaml").data == {"size": of_pyyaml}
    assert parse_yaml(text, "a.yaml").data == {"size": of_ours}


def test_they_agree_with_pyyaml_itself() -> None:
    yaml = pytest.importorskip("yaml")
    for text in ("010", "-010", "08", "0o10", "0x1F", "1:30", "1:2:3", "'010'", "+7", "1_000", "0", "1:90", "00"):
        assert parse_document(f"a: {text}\n", "a.yaml").data == yaml.safe_load(f"a: {text}\n"), text


@pytest.mark.parametrize(
    ("word", "value"), [("no", False), ("off", False), ("yes", True), ("On", True), ("'no'", False)]
)
def test_truth_values(tmp_path: Path, word: str, value: bool) -> None:
    text = f"base_model: gpt2\nsequence_len: 16\nmicro_batch_size: 1\nbf16: true\ngradient_checkpointing: {word}\n"
    assert read(tmp_path, text, ".yml").settings.get("training.recompute") == ("full" if value else "none")


def test_mappings_that_are_merged(tmp_path: Path) -> None:
    text = (
        "defaults: &d {num_processes: 8, mixed_precision: bf16}\nother: &o {num_machines: 2, mixed_precision: fp16}\n"
        "<<: [*d, *o]\ndistributed_type: MULTI_GPU\nnum_processes: 4\n"
    )
    reading = read(tmp_path, text, ".yaml")
    names = ("cluster.nodes", "training.precision")
    assert (reading.gpus, *(reading.settings[name] for name in names)) == (4, 2, "bf16")
    with pytest.raises(ScenarioError, match="merge keys"):
        parse_yaml("<<: {a: 1}\n", "s.yaml")
    with pytest.raises(ScenarioError, match="merges what is no mapping"):
        parse_document("<<: [3]\n", "a.yaml")


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".json", f'{{"zero_optimization": {{"stage": {NINES}}}}}'),
        (".json", f'{{"model_type": "llama", "hidden_size": {NINES}}}'),
        (".yaml", f"distributed_type: MULTI_GPU\nnum_processes: {NINES}\n"),
        (".toml", f"[model]\nflavor = '8B'\n[training]\nlocal_batch_size = {NINES}\n"),
        (".sh", f"torchrun --nproc_per_node {NINES} train.py --per_device_train_batch_size 1\n"),
        (".sh", f"torchrun pretrain_gpt.py --num-layers {NINES} --micro-batch-size 1\n"),
    ],
)
def test_thousands_of_digits_are_refused_in_our_words(tmp_path: Path, suffix: str, text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, text, suffix)
    assert "sys." not in str(caught.value)
    assert "limit" not in str(caught.value)
    assert len(str(caught.value)) < 200
