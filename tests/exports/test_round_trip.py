"""What a scenario says and what its launch files say is the same: every bundled one, in every format or refused."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from simgpu.api import simulate
from simgpu.cli.main import app
from simgpu.config.case import Case
from simgpu.config.exported_fields import differences, step_fields
from simgpu.config.exported_run import export_run
from simgpu.config.load import load_cases
from simgpu.config.lookup import bundled_folder, bundled_names
from simgpu.errors import ScenarioError
from simgpu.io.launch.formats import FORMATS
from simgpu.io.scenario_yaml import to_scenario_yaml
from tests.exports.conftest import SMALL, Export, deep

BUNDLED = {
    "context_parallel": {
        "whole": "accelerate torchrun", "halves": "accelerate", "quarters": "accelerate", "quarters by all-to-all": "",
    },
    "expert_parallel": {"experts in a node": "megatron", "experts across nodes": ""},
    "four_vs_eight": {
        "4 GPUs": "accelerate torchrun", "8 GPUs": "accelerate torchrun", "8 GPUs with DDP": "accelerate torchrun",
    },
    "pipeline_bubble": dict.fromkeys(("M = 4", "M = 8", "M = 16", "M = 32"), "megatron"),
    "pipeline_ideal": dict.fromkeys(("1F1B, M = 16", "1F1B, M = 32", "GPipe, M = 16", "GPipe, M = 32"), ""),
    "pipeline_schedules": dict.fromkeys(("GPipe", "1F1B", "Interleaved 1F1B", "ZB-H1", "ZBV"), ""),
    "tp_across_nodes": dict.fromkeys(
        ("A100, TP 8", "A100, TP 16, 1 NIC", "H100, TP 8", "H100, TP 16, 8 NICs"), "megatron"
    ),
    "zero_stages": {
        "DDP": "megatron", **dict.fromkeys(("ZeRO-1", "ZeRO-2", "ZeRO-3"), "deepspeed accelerate torchrun"),
    },
}  # fmt: skip
"""Which formats can say which case; the others name the field that they cannot say."""
GRIDS = ("search_parallelism", "sweep_parallelism")
"""Many runs each, and none without a choice."""


def cases() -> Iterator[tuple[str, str, str, bool]]:
    for scenario, said in BUNDLED.items():
        for case, forms in said.items():
            for form in FORMATS:
                yield scenario, case, form, form in forms.split()


def test_the_table_has_every_bundled_scenario() -> None:
    assert set(bundled_names("scenarios")) == {*BUNDLED, *GRIDS}
    for scenario, said in BUNDLED.items():
        assert [case.name for case in load_cases(scenario)] == list(said)


@pytest.mark.parametrize(("scenario", "case", "form", "said"), [*cases()])
def test_every_bundled_scenario(scenario: str, case: str, form: str, said: bool, tmp_path: Path) -> None:
    chosen = next(one for one in load_cases(scenario) if one.name == case)
    if not said:
        with pytest.raises(ScenarioError) as caught:
            export_run(scenario, chosen, form)
        assert len(caught.value.issues) == 1
        issue = caught.value.issues[0]
        assert issue.field.partition(".")[0] in ("model", "training", "parallel", "ddp", "fsdp", "zero")
        return
    run = export_run(scenario, chosen, form)
    for name, text in run.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert differences(step_fields(chosen), step_fields(back(tmp_path, run.back))) == {}


def back(folder: Path, command: str) -> Case:
    """Run the command that the files give, as a user would who stands in their folder."""
    words = shlex.split(command)
    assert words[:2] == ["simgpu", "import"]
    script, out = words.index("launch.sh"), words.index("scenario.yaml")
    words[script], words[out] = str(folder / "launch.sh"), str(folder / "scenario.yaml")
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, result.output
    return load_cases(str(folder / "scenario.yaml"))[0]


@pytest.mark.parametrize(
    ("scenario", "case", "form"),
    [
        ("four_vs_eight", "8 GPUs", "accelerate"),
        ("four_vs_eight", "8 GPUs with DDP", "torchrun"),
        ("zero_stages", "ZeRO-3", "deepspeed"),
        ("pipeline_bubble", "M = 8", "megatron"),
    ],
)
def test_the_step_is_the_same(scenario: str, case: str, form: str, tmp_path: Path) -> None:
    chosen = next(one for one in load_cases(scenario) if one.name == case)
    run = export_run(scenario, chosen, form)
    for name, text in run.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    again, step = simulate(back(tmp_path, run.back)), simulate(chosen)
    assert (again.step_time_ns, again.peak_memory_bytes) == (step.step_time_ns, step.peak_memory_bytes)


TITAN = {"model": "llama-3-8b", "cluster": {"topology": "dgx-h100"},
         "training": {"sequence_length": 2048, "reduce_dtype": "fp32"},
         "parallel": {"data_parallel": "fsdp"}, "fsdp": {"wrap_embedding_and_head": True}}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"software": "compile", "training": {"recompute": "full"}},
        {"parallel": {"tp": 2, "sequence_parallel": True, "cp": 2, "cp_comm_type": "all_gather"}},
        {"parallel": {"pp": 4, "schedule": "interleaved_1f1b", "virtual_stages": 2}},
        {"parallel": {"pp": 2, "layers_per_stage": [15, 17]}, "fsdp": {"reshard_after_forward": False}},
        {"cluster": {"nodes": 2}, "parallel": {"data_parallel": "hsdp"}},
        {"training": {"recompute": "full", "recompute_layers": 16}},
        {"fsdp": None, "parallel": {"data_parallel": "ddp"}, "ddp": {"bucket_cap_mb": 100},
         "training": {"reduce_dtype": None}},
    ],
)  # fmt: skip
def test_torchtitan(export: Export, changes: dict) -> None:  # type: ignore[type-arg]
    """Its own formats and units are a scenario's when they are asked for; the export checks all others."""
    folder = export("torchtitan", deep(SMALL, TITAN), **changes)
    assert {path.name for path in folder.iterdir()} == {"launch.sh", "job.toml"}


def refusal(path: str, case: Case, form: str) -> ScenarioError | None:
    """Return the error that refuses to write a case; None where its files are written."""
    try:
        export_run(path, case, form)
    except ScenarioError as error:
        return error
    return None


def published() -> Iterator[tuple[str, str]]:
    for path in sorted((bundled_folder("scenarios") / "published").glob("*.yaml")):
        yield str(path), "accelerate" if path.stem == "fsdp_mpt" else "megatron"


@pytest.mark.parametrize(("path", "form"), [*published()], ids=lambda value: Path(value).stem)
def test_published_runs(path: str, form: str) -> None:
    """Half of each file's first runs or more can be launched; the others are refused by a field."""
    first = load_cases(path)[:6]
    refused = [found for case in first if (found := refusal(path, case, form)) is not None]
    assert all(len(error.issues) == 1 for error in refused)
    done = len(first) - len(refused)
    least = {"fsdp_mpt": 0, "zero_bubble": 0}  # reductions in fp32 beside FSDP, and zero-bubble schedules
    assert done >= least.get(Path(path).stem, len(first) // 2)


KINDS = ("none", "ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp", "hsdp", "distributed_optimizer", "dataparallel")
FIELDS = {
    "training.precision": ("bf16", "fp16", "fp32", "tf32"), "training.recompute": ("none", "selective", "full"),
    "training.optimizer": ("adamw", "sgd", "adafactor", "adam8bit", "none"), "training.dropout": (0.0, 0.1),
    "training.grad_dtype": ("fp32", "bf16"), "training.reduce_dtype": ("fp32", "bf16"),
    "parallel.tp": (1, 2, 4), "parallel.pp": (1, 2, 4), "parallel.cp": (1, 2), "parallel.data_parallel": KINDS,
    "parallel.sequence_parallel": (True, False), "parallel.virtual_stages": (1, 2), "parallel.overlap_p2p": (True,),
    "parallel.schedule": ("1f1b", "gpipe", "interleaved_1f1b", "zbv"), "parallel.cp_comm_type": ("p2p", "a2a"),
    "cluster.nodes": (1, 2), "cluster.gpus": (1, 2, 4, 8, 12, 16), "software": ("flash", "te", "compile", "eager"),
    "ddp.bucket_cap_mb": (25, 100, 1_000_000, 2.5), "zero.overlap_comm": (True, False), "zero.reduce_bucket_size": (7,),
    "fsdp.reshard_after_forward": (True, False), "fsdp.cpu_offload": (True,),
    "fsdp.auto_wrap_policy": ("no_wrap",), "fsdp.backward_prefetch": ("no_prefetch",),
    "zero.contiguous_gradients": (False,),
    "distributed_optimizer.overlap_grad_reduce": (True,), "model.kv_heads": (2,), "model.tied_embeddings": (True,),
    "model.mlp": ("gelu",), "model.norm": ("layernorm",), "model.experts": (8,), "model.vocab": (50257,),
    "network.nccl.algo": ("Ring",), "perturb.jitter": (0.1,), "model.qk_norm": (True,), "training.train_tokens": (1e9,),
}  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), form=st.sampled_from(list(FORMATS)))
def test_any_scenario_is_said_or_refused(
    data: st.DataObject, form: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing but a scenario's refusal may come out of an export, and what is written reads back as the same."""
    chosen = data.draw(st.lists(st.sampled_from(list(FIELDS)), unique=True, max_size=6))
    scenario: dict = {name: dict(block) for name, block in SMALL.items()}  # type: ignore[type-arg]
    for name in chosen:
        here = scenario
        *blocks, last = name.split(".")
        for part in blocks:
            here = here.setdefault(part, {})
        here[last] = data.draw(st.sampled_from(FIELDS[name]))
    if "model.experts" in chosen:
        scenario["model"] |= {"experts_per_token": 2, "expert_ffn": 256}
    path = tmp_path_factory.mktemp("any") / "s.yaml"
    path.write_text(to_scenario_yaml(scenario), encoding="utf-8")
    try:
        case = load_cases(str(path))[0]
    except ScenarioError:
        assume(False)
    found = refusal(str(path), case, form)
    assert found is None or all(issue.field for issue in found.issues)


TITAN = {
    **SMALL, "model": "llama-3-8b", "cluster": {"topology": "dgx-h100"},
    "parallel": {"data_parallel": "fsdp"}, "fsdp": {"wrap_embedding_and_head": True},
}  # fmt: skip


@pytest.mark.parametrize(
    ("formats", "said"),
    [
        ({"reduce_dtype": "bf16"}, {"mixed_precision_reduce": "bfloat16"}),
        ({"reduce_dtype": "fp32"}, {"mixed_precision_reduce": "float32"}),
        ({"param_dtype": "bf16", "grad_dtype": "bf16", "master_dtype": "none", "reduce_dtype": "bf16"},
         {"dtype": "bfloat16", "mixed_precision_reduce": "bfloat16"}),
    ],
)  # fmt: skip
def test_what_torchtitans_file_says_of_formats(tmp_path: Path, formats: dict[str, str], said: dict[str, str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(to_scenario_yaml(deep(TITAN, {"training": formats})), encoding="utf-8")
    case = load_cases(str(path))[0]
    run = export_run(str(path), case, "torchtitan")
    table = tomllib.loads(run.files["job.toml"])["training"]
    assert {name: table[name] for name in table if name == "dtype" or name.endswith("_reduce")} == said
    folder = tmp_path / "job"
    folder.mkdir()
    for name, text in run.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    assert differences(step_fields(case), step_fields(back(folder, run.back))) == {}


def test_formats_of_reductions_mean_nothing_to_one_gpu(tmp_path: Path) -> None:
    """torchtitan's format is fp32 there, and nothing is reduced."""
    path = tmp_path / "s.yaml"
    one = {"cluster": {"topology": "dgx-h100", "gpus": 1}, "parallel": None, "fsdp": None}
    formats = {"training": {"reduce_dtype": "bf16"}}
    path.write_text(to_scenario_yaml(deep(TITAN, {**one, **formats})), encoding="utf-8")
    case = load_cases(str(path))[0]
    assert "training.reduce_dtype" not in step_fields(case)
    assert "job.toml" in export_run(str(path), case, "torchtitan").files


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["zero1", "zero2", "zero3"])
def test_masters_of_deepspeed_come_back(tmp_path: Path, kind: str, precision: str) -> None:
    path = tmp_path / "s.yaml"
    changes = {"parallel": {"data_parallel": kind}, "training": {"precision": precision}}
    path.write_text(to_scenario_yaml(deep(SMALL, changes)), encoding="utf-8")
    run = export_run(str(path), load_cases(str(path))[0], "deepspeed")
    assert "master_dtype" not in run.back


def test_adapters_are_no_launch_files(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(to_scenario_yaml(deep(SMALL, {"training": {"lora": {"rank": 8}}})), encoding="utf-8")
    for form in FORMATS:
        with pytest.raises(ScenarioError, match=r"training\.lora: is in no launch file: .*--set training\.lora=null"):
            export_run(str(path), load_cases(str(path))[0], form)
    plain = ("training.lora=null",)
    assert export_run(str(path), load_cases(str(path), overrides=plain)[0], "accelerate", plain).files
