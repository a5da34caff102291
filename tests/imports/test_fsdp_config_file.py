"""A file of FSDP's options that Trainer's arguments name: beside them, as another FILE, or written by the script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.errors import ScenarioError

OPTIONS = {"fsdp_version": 2, "reshard_after_forward": False, "fsdp_offload_params": True}
LINE = "torchrun --nproc_per_node 8 clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4"
NAMED = '--fsdp "full_shard auto_wrap" --fsdp_config cfg/fsdp.json'


def run(*paths: Path) -> ImportedRun:
    return import_run(paths, RunAnswers(topology="dgx-a100"))


def checked(found: ImportedRun) -> None:
    assert found.data["parallel"]["data_parallel"] == "fsdp"
    assert found.data["fsdp"]["reshard_after_forward"] is False
    assert found.data["fsdp"]["cpu_offload"] is True
    assert found.unknown == ()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "run.sh").write_text(f"{LINE} {NAMED}\n")
    return tmp_path / "run.sh"


def test_beside_the_script(tmp_path: Path, script: Path) -> None:
    (tmp_path / "cfg").mkdir()
    (tmp_path / "cfg" / "fsdp.json").write_text(json.dumps(OPTIONS))
    checked(run(script))


def test_as_another_file(tmp_path: Path, script: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(OPTIONS))
    checked(run(script, tmp_path / "mine.json"))
    checked(run(tmp_path / "mine.json", script))


def test_written_by_the_script(tmp_path: Path, script: Path) -> None:
    script.write_text(f"mkdir cfg\ncat > cfg/fsdp.json <<EOF\n{json.dumps(OPTIONS)}\nEOF\n{LINE} {NAMED}\n")
    checked(run(script))


@pytest.mark.parametrize("more", ["", "stage: sft\nfinetuning_type: full\n"])
def test_named_by_trainer_arguments_in_a_file(tmp_path: Path, more: str) -> None:
    (tmp_path / "fsdp.json").write_text(json.dumps(OPTIONS))
    args = tmp_path / "args.yaml"
    args.write_text(
        f"model_name_or_path: gpt2\nper_device_train_batch_size: 2\nfsdp: full_shard\nfsdp_config: fsdp.json\n{more}"
    )
    checked(run(args))


def test_one_that_is_not_there_is_asked_for(script: Path) -> None:
    with pytest.raises(ScenarioError, match=r"fsdp_config_file = cfg/fsdp\.json: is named and was not given"):
        run(script)


def test_misspelt_options_are_listed(tmp_path: Path, script: Path) -> None:
    (tmp_path / "cfg").mkdir()
    (tmp_path / "cfg" / "fsdp.json").write_text(json.dumps({**OPTIONS, "forward_prefech": True}))
    found = run(script)
    assert found.unknown == (
        "run.sh: args.fsdp_config.forward_prefech (did you mean args.fsdp_config.forward_prefetch?)",
    )


def test_options_that_nothing_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(OPTIONS))
    (tmp_path / "run.sh").write_text(LINE)
    with pytest.raises(ScenarioError, match=r"mine\.json: has options of FSDP, and nothing names it"):
        run(tmp_path / "run.sh", tmp_path / "mine.json")


def test_without_fsdp_the_file_has_no_effect(tmp_path: Path, script: Path) -> None:
    script.write_text(f"{LINE} --fsdp_config cfg/fsdp.json\n")
    found = run(script)
    assert found.data["parallel"]["data_parallel"] == "ddp"


SWIFT = {"_note": "of ms-swift", "fsdp": "full_shard auto_wrap", "fsdp_config": {"reshard_after_forward": False}}
SFT = "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --train_type full --max_length 512 --fsdp %s"


def checked_swift(found: ImportedRun, recompute: str | None) -> None:
    assert found.data["parallel"]["data_parallel"] == "fsdp"
    assert found.data["fsdp"]["reshard_after_forward"] is False
    assert found.data["training"].get("recompute") == recompute
    assert found.unknown == ()


def test_of_ms_swift_alone(tmp_path: Path) -> None:
    path = tmp_path / "fsdp2.json"
    path.write_text(json.dumps(SWIFT))
    checked_swift(import_run([path], RunAnswers(model="gpt2", topology="dgx-a100", gpus=8)), None)


@pytest.mark.parametrize(
    ("more", "recompute"), [({}, "full"), ({"activation_checkpointing": True, "fsdp_version": 2}, "full")]
)
def test_of_ms_swift_on_its_line(tmp_path: Path, more: dict[str, object], recompute: str) -> None:
    options = json.dumps({**SWIFT, "fsdp_config": {"reshard_after_forward": False, **more}})
    (tmp_path / "mine.json").write_text(options)
    (tmp_path / "run.sh").write_text(SFT % "mine.json")
    checked_swift(run(tmp_path / "run.sh"), recompute)
    checked_swift(run(tmp_path / "run.sh", tmp_path / "mine.json"), recompute)
    (tmp_path / "mine.json").unlink()
    with pytest.raises(ScenarioError, match=r"fsdp_config_file = mine\.json: is named and was not given"):
        run(tmp_path / "run.sh")
    (tmp_path / "run.sh").write_text(SFT % f"'{options}'")
    checked_swift(run(tmp_path / "run.sh"), recompute)


def test_of_ms_swift_by_name(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(SFT % "fsdp2")
    found = run(tmp_path / "run.sh").data
    assert (found["parallel"]["data_parallel"], found["training"]["recompute"]) == ("fsdp", "full")
