"""Every n-th block recomputed: counted for each stage, and never in silence another number."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.reading import Reading
from tests.imports.reading import read

RECOMPUTE = ("training.recompute", "training.recompute_layers")


def titan(folder: Path, option: str, *, pp: int = 1, more: str = "") -> Reading:
    text = (
        "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 8\n[parallelism]\n"
        f"pipeline_parallel_degree = {pp}\n{more}\n[activation_checkpoint]\nmode = 'selective'\n"
        f"selective_ac_option = '{option}'\n"
    )
    return read(folder, text, ".toml")


def tune(folder: Path, more: str, model: str = "llama3.llama3_8b") -> Reading:
    text = (
        f"model: {{_component_: torchtune.models.{model}}}\ntokenizer: {{max_seq_len: 512}}\nbatch_size: 1\n"
        "optimizer: {_component_: torch.optim.AdamW}\nloss: {_component_: torchtune.modules.loss.X}\ndtype: bf16\n"
    )
    return read(folder, text + more, ".yaml")


def recomputed(reading: Reading) -> tuple[object, object]:
    first, second = (reading.settings.get(field) for field in RECOMPUTE)
    return first, second


@pytest.mark.parametrize(
    ("option", "pp", "more", "layers", "told"),
    [
        ("2", 1, "", 16, None),
        ("3", 2, "pipeline_parallel_split_points = ['layers.10']", 5, "stages of 10, 22 layers recompute 3, 7"),
        ("2", 4, "", 4, "stages of 8, 9, 8, 7 layers recompute 3 x 4, 3"),
        ("5", 4, "pipeline_parallel_first_stage_less_layers = 0\npipeline_parallel_last_stage_less_layers = 0", 1, None),
        ("5", 2, "pipeline_parallel_schedule = 'Interleaved1F1B'\npipeline_parallel_first_stage_less_layers = 0\n"
         "pipeline_parallel_last_stage_less_layers = 0", 2, "recompute 2 x 1, 2 x 2 of them there, and 4 x 2 here"),
    ],
)  # fmt: skip
def test_every_nth_layer_of_torchtitan(
    tmp_path: Path, option: str, pp: int, more: str, layers: int, told: str | None
) -> None:
    reading = titan(tmp_path, option, pp=pp, more=more)
    assert recomputed(reading) == ("full", layers)
    notes = [note for note in reading.notes if note.startswith("selective_ac_option")]
    assert len(notes) == (told is not None)
    assert told is None or told in notes[0]


@pytest.mark.parametrize(("option", "wanted"), [("0", ("full", None)), ("1", ("full", None)), ("99", ("none", None))])
def test_every_layer_and_none_of_torchtitan(tmp_path: Path, option: str, wanted: tuple[object, object]) -> None:
    assert recomputed(titan(tmp_path, option)) == wanted


@pytest.mark.parametrize("option", ["int", "-2", "1.5"])
def test_what_torchtitan_raises_of(tmp_path: Path, option: str) -> None:
    with pytest.raises(ScenarioError, match=r"selective_ac_option = .*Invalid selective AC option"):
        titan(tmp_path, option)


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ("enable_activation_checkpointing: False\nac_mode: selective\nac_option: 2\n", ("full", 16)),
        ("ac_mode: selective\nac_option: 3\n", ("full", 10)),
        ("ac_mode: selective\nac_option: op\n", ("full", 16)),
        ("enable_activation_checkpointing: False\nac_mode: full\n", ("full", None)),
        ("enable_activation_checkpointing: True\n", ("full", None)),
        ("enable_activation_checkpointing: True\nac_mode: full\n", ("none", None)),  # the recipe looks at neither then
        ("enable_activation_checkpointing: False\nac_mode: null\nac_option: null\n", ("none", None)),
    ],
)
def test_both_ways_of_torchtune(tmp_path: Path, more: str, wanted: tuple[object, object]) -> None:
    reading = tune(tmp_path, more)
    assert recomputed(reading) == wanted
    assert not any(key.startswith("ac_") for key in (*reading.idle, *reading.unknown))


def test_a_model_of_torchtune_without_known_layers_is_told_of(tmp_path: Path) -> None:
    reading = tune(tmp_path, "ac_mode: selective\nac_option: 2\n", model="mine.mine_1b")
    assert recomputed(reading) == ("full", None)
    assert any("ac_option 2" in note for note in reading.notes)


@pytest.mark.parametrize("more", ["ac_mode: some\n", "ac_mode: selective\n", "ac_mode: selective\nac_option: 0\n"])
def test_what_torchtune_raises_of(tmp_path: Path, more: str) -> None:
    with pytest.raises(ScenarioError, match=r"ac_(mode|option)"):
        tune(tmp_path, more)
