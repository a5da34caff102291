"""Batch arithmetic: any two numbers give the third, in the names of three tools; a wrong batch has three ways out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.config import load_cases
from simgpu.config.batch import solve_batch
from simgpu.config.batch_names import BATCH_NAMES
from simgpu.config.draft import Draft
from simgpu.config.findings import Findings
from simgpu.config.schema import scenario_schema
from simgpu.config.sweep_grid import load_grid
from simgpu.config.training_block import TrainingBlock
from simgpu.errors import ScenarioError

BASE = {"model": "gpt2", "cluster": {"topology": "dgx-a100"}}


def scenario(**batch):
    return {**BASE, "training": {"sequence_length": 64, **batch}}


def solved(*settings, **batch):
    (case,) = load_cases(scenario(**batch), overrides=settings)
    return case.training.micro_batch_size, case.training.accumulation


def issue(*settings, **batch):
    with pytest.raises(ScenarioError) as caught:
        load_cases(scenario(**batch), overrides=settings)
    (found,) = caught.value.issues
    return found


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ({"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}, (2, 4)),
        ({"per_device_train_batch_size": 2}, (2, 1)),
        ({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2}, (2, 4)),
        ({"train_batch_size": 64, "gradient_accumulation_steps": 4}, (2, 4)),
        (
            {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4},
            (2, 4),
        ),
        ({"global_batch_size": 64, "per_device_train_batch_size": 2}, (2, 4)),
        ({"train_batch_size": 64, "global_batch_size": 64, "micro_batch_size": 1}, (1, 8)),
        ({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3}, (2, 3)),
    ],
)
def test_names_of_hugging_face_and_deepspeed_mean_what_they_mean_there(batch, expected):
    assert solved(**batch) == expected


def test_a_setting_holds_over_the_file_whatever_the_names():
    batch = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2}
    assert solved("training.global_batch_size=128", **batch) == (2, 8)
    assert solved("training.per_device_train_batch_size=4", **batch) == (4, 2)
    assert solved("training.train_batch_size=", "training.gradient_accumulation_steps=2", **batch) == (2, 2)
    variants = [{"name": "a", "set": {"training.train_batch_size": 32}}, {"name": "b", "set": {}}]
    cases = load_cases({**scenario(global_batch_size=64, micro_batch_size=2), "variants": variants})
    assert [case.training.accumulation for case in cases] == [2, 4]


def test_a_sweep_goes_over_them():
    grid = load_grid({**scenario(train_batch_size=64), "sweep": {"training.train_micro_batch_size_per_gpu": [1, 2]}})
    assert [point.data["training"]["micro_batch_size"] for point in grid.points] == [1, 2]


def test_a_number_has_one_name():
    found = issue(train_batch_size=64, global_batch_size=32, micro_batch_size=1)
    assert str(found).endswith(
        "training.train_batch_size = 64: is another name of global_batch_size, which is given as 32; "
        "fix: leave train_batch_size or global_batch_size out"
    )
    found = issue(per_device_train_batch_size=2, train_micro_batch_size_per_gpu=1)
    wanted = "train_micro_batch_size_per_gpu = 1: is another name of per_device_train_batch_size, which is given as 2"
    assert wanted in str(found)


def test_messages_use_the_names_of_the_file(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "model: gpt2\ncluster: {topology: dgx-a100}\ntraining:\n  sequence_length: 64\n"
        "  train_micro_batch_size_per_gpu: 2\n  train_batch_size: 64\n  gradient_accumulation_steps: 3\n"
    )
    with pytest.raises(ScenarioError) as caught:
        load_cases(path)
    assert str(caught.value) == (
        f"{path}:6: training.train_batch_size = 64: is not train_micro_batch_size_per_gpu x dp x "
        "gradient_accumulation_steps = 2 x 8 x 3 = 48; fix: set train_batch_size to 48, or "
        "gradient_accumulation_steps to 4, or train_micro_batch_size_per_gpu to 1 and gradient_accumulation_steps to 8"
    )
    assert "training.train_batch_size = 0: is below 1" in str(issue(train_batch_size=0, micro_batch_size=1))
    found = issue("training.global_batch_size=63", train_batch_size=64, micro_batch_size=1)
    assert str(found).startswith("--set: training.global_batch_size = 63: is not a multiple")


def test_what_is_missing_has_the_names_that_are_there():
    assert issue(train_batch_size=64).fix == "add micro_batch_size or gradient_accumulation"
    assert issue(gradient_accumulation_steps=64).fix == "add micro_batch_size or global_batch_size"
    assert issue().fix == "add micro_batch_size, and global_batch_size or gradient_accumulation"


def test_editors_know_the_names():
    training = scenario_schema()["$defs"]["TrainingBlock"]["properties"]
    for name, own in BATCH_NAMES.items():
        assert {**training[name], "description": ""} == {**training[own], "description": ""}


def solve(dp, **fields):
    findings = Findings(draft=Draft(data={"training": fields}, source="s"))
    return solve_batch(TrainingBlock(**fields), dp, findings), [found.fix for found in findings.issues]


def applied(way, dp, fields):
    """The batches that one way out names, as (data-parallel degree, fields)."""
    changes = re.findall(r"(\w+) to (\d+(?: or \d+)?)", way)
    (first, values), *others = changes
    for value in values.split(" or "):
        changed = dict(fields, **{name: int(text) for name, text in [(first, value), *others]})
        yield changed.pop("dp", dp), changed


small, few = st.integers(1, 40), st.integers(1, 16)


@given(small, st.integers(1, 600), small, few)
def test_a_wrong_triple_has_exactly_three_ways_out_and_each_is_one(micro, total, steps, dp):
    fields = {"micro_batch_size": micro, "global_batch_size": total, "gradient_accumulation": steps}
    right, fixes = solve(dp, **fields)
    assert (right is None) == (micro * dp * steps != total)
    if right is None:
        ways = fixes[0].removeprefix("set ").split(", or ")
        assert len(set(ways)) == 3
        for way in ways:
            for degree, changed in applied(way, dp, fields):
                assert solve(degree, **changed)[0] == (changed["micro_batch_size"], changed["gradient_accumulation"])
                assert degree <= dp


@given(small, st.integers(1, 600), few, st.sampled_from(["micro_batch_size", "gradient_accumulation"]))
def test_every_way_out_of_a_wrong_pair_is_one(value, total, dp, name):
    fields = {name: value, "global_batch_size": total}
    right, fixes = solve(dp, **fields)
    assert (right is None) == bool(total % (dp * value))
    if right is None:
        for way in fixes[0].removeprefix("set ").split(", or "):
            for degree, changed in applied(way, dp, fields):
                assert solve(degree, **changed)[0] is not None


def test_each_number_alone_where_that_goes():
    fields = {"micro_batch_size": 2, "global_batch_size": 32, "gradient_accumulation": 4}
    assert solve(8, **fields)[1] == [
        "set global_batch_size to 64, or gradient_accumulation to 2, or micro_batch_size to 1"
    ]
