"""DeepSpeed files that DeepSpeed itself would not start, and apex's levels of mixed precision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.reading import Reading
from tests.imports.reading import read


def reading(folder: Path, **options: Any) -> Reading:
    return read(folder, json.dumps({"train_batch_size": 64, **options}), ".json")


@pytest.mark.parametrize(
    ("block", "value"),
    [("zero_optimization", [1]), ("zero_optimization", 2), ("zero_optimization", "stage2"), ("optimizer", "Adam"),
     ("bf16", True), ("fp16", "auto"), ("amp", 1), ("scheduler", "WarmupLR"), ("pipeline", 4),
     ("activation_checkpointing", True), ("torch_autocast", "bf16"), ("compile", True)],
)  # fmt: skip
def test_blocks_that_are_no_mappings(tmp_path: Path, block: str, value: Any) -> None:
    with pytest.raises(ScenarioError, match=rf"{block} = .*: is no mapping, so DeepSpeed does not start; allowed: "):
        reading(tmp_path, **{block: value})


@pytest.mark.parametrize("name", ["offload_param", "offload_optimizer"])
def test_a_block_in_a_block(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScenarioError, match=rf"zero_optimization\.{name} = cpu: is no mapping"):
        reading(tmp_path, zero_optimization={"stage": 3, name: "cpu"})


@pytest.mark.parametrize(
    "options",
    [{"train_batch_size": "64"}, {"train_micro_batch_size_per_gpu": "4"}, {"gradient_accumulation_steps": "2"},
     {"sequence_parallel_size": "2"}, {"zero_optimization": {"stage": 2, "reduce_bucket_size": "5e8"}}],
)  # fmt: skip
def test_text_where_deepspeed_calculates(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=r"is text, where DeepSpeed needs a number; .*without quotation marks"):
        reading(tmp_path, **options)


def test_what_deepspeed_takes(tmp_path: Path) -> None:
    """The oldest form of ZeRO, auto, and digits as text where pydantic reads them."""
    assert reading(tmp_path, zero_optimization=True).settings["parallel.data_parallel"] == "zero1"
    found = reading(
        tmp_path, train_batch_size="auto", zero_optimization={"stage": "2", "reduce_bucket_size": "200000000"}
    )
    assert found.settings["zero.reduce_bucket_size"] == 200_000_000
    assert found.settings["parallel.data_parallel"] == "zero2"
    assert reading(tmp_path, bf16=None, optimizer=None).settings["parallel.data_parallel"] == "ddp"


@pytest.mark.parametrize(("stage", "stages", "told"), [(2, 4, True), (3, 2, True), (1, 4, False), (2, 1, False)])
def test_the_pipeline_engine_refuses_zero_2_and_3(tmp_path: Path, stage: int, stages: int, told: bool) -> None:
    found = reading(tmp_path, zero_optimization={"stage": stage}, pipeline={"stages": stages})
    assert any("PipelineEngine refuses ZeRO-2 and ZeRO-3" in note for note in found.notes) is told


FORMATS = ("precision", "param_dtype", "grad_dtype", "reduce_dtype", "master_dtype")


@pytest.mark.parametrize(
    ("level", "formats"),
    [(None, ("fp16", "fp32", "fp32", "fp32", "none")), ("O0", ("fp32", "fp32", "fp32", "fp32", "none")),
     ("O1", ("fp16", "fp32", "fp32", "fp32", "none")), ("O2", ("fp16", "fp16", "fp16", "fp16", "fp32")),
     ("O3", ("fp16", "fp16", "fp16", "fp16", "none"))],
)  # fmt: skip
def test_levels_of_apex(tmp_path: Path, level: str | None, formats: tuple[str, ...]) -> None:
    options = {"enabled": True} if level is None else {"enabled": True, "opt_level": level}
    found = reading(tmp_path, amp=options)
    assert tuple(found.settings[f"training.{name}"] for name in FORMATS) == formats
    assert not any(key.startswith("amp") for key in found.idle)


@pytest.mark.parametrize("other", ["fp16", "bf16"])
def test_amp_beside_another_format(tmp_path: Path, other: str) -> None:
    with pytest.raises(ScenarioError, match=rf"DeepSpeed does not take amp beside {other}"):
        reading(tmp_path, amp={"enabled": True}, **{other: {"enabled": True}})
    with pytest.raises(ScenarioError, match="DeepSpeed does not take amp with ZeRO"):
        reading(tmp_path, amp={"enabled": True}, zero_optimization={"stage": 1})
    off = reading(tmp_path, amp={"enabled": False}, **{other: {"enabled": True}})
    assert off.settings["training.precision"] == other
    with pytest.raises(ScenarioError, match="is no level of apex; allowed: O0, O1, O2, O3"):
        reading(tmp_path, amp={"enabled": True, "opt_level": "01"})
