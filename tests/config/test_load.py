"""What a correct scenario comes down to."""

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.config import load_cases, load_scenario
from simgpu.config.recipe import framework_formats
from simgpu.config.schema import scenario_schema
from simgpu.dtypes import DType
from simgpu.errors import ScenarioError
from simgpu.parallel.data_parallel import STRATEGIES
from simgpu.parallel.data_parallel_options import ZeroOptions
from simgpu.parallel.schedules import PIPELINE_SCHEDULES
from simgpu.workload.bundled import bundled_model

BASE = {
    "model": "llama-2-7b",
    "cluster": {"topology": "dgx-a100", "gpus": 8},
    "training": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 64},
}


def case(**blocks):
    merged = {
        name: {**BASE.get(name, {}), **block} if isinstance(block, dict) else block for name, block in blocks.items()
    }
    data = {**BASE, **merged}
    (only,) = load_cases(data)
    return only


def test_dp_is_what_is_left_and_ddp_the_default_kind():
    strategy = case(parallel={"tp": 2, "pp": 2}).strategy
    assert (strategy.tp, strategy.pp, strategy.dp, strategy.data_parallel) == (2, 2, 2, "ddp")
    assert case(parallel={"tp": 8}).strategy.data_parallel == "none"
    assert case(parallel={"tp": 2, "dp": 4}).strategy.dp == 4


def test_all_gpus_of_all_nodes_by_default():
    (only,) = load_cases({**BASE, "cluster": {"topology": "dgx-a100", "nodes": 2}})
    assert only.cluster.world_size == only.strategy.world_size == 16


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ({"micro_batch_size": 2, "global_batch_size": 64}, (2, 4)),
        ({"micro_batch_size": 2, "gradient_accumulation": 3}, (2, 3)),
        ({"global_batch_size": 64, "gradient_accumulation": 4}, (2, 4)),
        ({"micro_batch_size": 2, "global_batch_size": 48, "gradient_accumulation": 3}, (2, 3)),
        ({"micro_batch_size": 2}, (2, 1)),
    ],
)
def test_two_of_the_batch_fields_give_the_third(batch, expected):
    (only,) = load_cases({**BASE, "training": {"sequence_length": 4096, **batch}})
    assert (only.training.micro_batch_size, only.training.accumulation) == expected


def test_a_wrong_triple_is_answered_with_the_three_ways_to_make_it_right():
    training = {"sequence_length": 8, "micro_batch_size": 2, "global_batch_size": 32, "gradient_accumulation": 4}
    with pytest.raises(ScenarioError) as caught:
        load_cases({**BASE, "training": training})
    (issue,) = caught.value.issues
    assert issue.problem == "is not micro_batch_size x dp x gradient_accumulation = 2 x 8 x 4 = 64"
    assert issue.fix == "set global_batch_size to 64, or gradient_accumulation to 2, or micro_batch_size to 1"


@pytest.mark.parametrize(
    ("parallel", "bytes_per_parameter"),
    [
        # weights + gradients + optimizer state of DESIGN section 7
        ({"data_parallel": "ddp"}, (4, 4, 8)),
        ({"data_parallel": "fsdp"}, (4, 4, 8)),
        ({"data_parallel": "zero1"}, (2, 2, 12)),
        ({"data_parallel": "zero2"}, (2, 2, 12)),
        ({"data_parallel": "zero3"}, (2, 2, 12)),
        ({"tp": 8}, (2, 4, 12)),
        ({"tp": 2, "pp": 2, "data_parallel": "ddp"}, (2, 4, 12)),
        ({"tp": 2, "data_parallel": "fsdp"}, (4, 4, 8)),
    ],
)
def test_number_formats_follow_the_framework(parallel, bytes_per_parameter):
    training = case(parallel=parallel).training
    assert (
        training.param_dtype.bytes, training.grad_dtype.bytes, training.optimizer_bytes_per_parameter
    ) == bytes_per_parameter  # fmt: skip


def test_what_travels_follows_the_framework():
    reduce = {kind: case(parallel={"data_parallel": kind}).training.reduce_dtype for kind in ("ddp", "fsdp", "zero2")}
    assert reduce == {"ddp": "fp32", "fsdp": "bf16", "zero2": "bf16"}
    assert case(parallel={"tp": 2}).training.reduce_dtype == "fp32"


@given(st.sampled_from(["none", "ddp", "zero1", "zero2", "zero3", "fsdp"]), st.booleans())
def test_in_fp32_everything_is_fp32_and_zero_1_and_2_copy_the_weights(kind, model_parallel):
    for precision in (DType.FP32, DType.TF32):
        formats = framework_formats(kind, model_parallel=model_parallel, precision=precision)
        master = DType.FP32 if kind in ("zero1", "zero2") else None
        assert (formats.param, formats.grad, formats.reduce, formats.master) == (DType.FP32,) * 3 + (master,)


@pytest.mark.parametrize(
    ("parallel", "formats"),
    [
        ({"data_parallel": "ddp"}, ("bf16", "bf16")),  # PyTorch's gradients are as its weights, and are what is reduced
        ({"data_parallel": "fsdp", "tp": 2}, ("bf16", "bf16")),
        ({"data_parallel": "ddp", "tp": 2}, ("fp32", "fp32")),  # Megatron's main gradients
        ({"data_parallel": "zero2"}, ("bf16", "bf16")),
    ],
)
def test_gradients_of_chosen_weights(parallel, formats):
    found = case(parallel=parallel, training={"param_dtype": "bf16"}).training
    assert (found.grad_dtype, found.reduce_dtype) == formats


def test_formats_can_be_chosen():
    training = case(
        parallel={"data_parallel": "zero3"},
        training={"param_dtype": "fp32", "grad_dtype": "fp16", "reduce_dtype": "fp16"},
    ).training
    assert (training.param_dtype, training.grad_dtype, training.reduce_dtype) == ("fp32", "fp16", "fp16")
    assert training.master_dtype is None  # fp32 weights are their own master
    copied = case(parallel={"data_parallel": "zero2"}, training={"precision": "fp32"}).training
    assert (copied.param_dtype, copied.master_dtype, copied.optimizer_bytes_per_parameter) == ("fp32", "fp32", 12)
    assert case(parallel={"tp": 2}, training={"master_dtype": "none"}).training.master_dtype is None


def test_options_reach_the_strategy():
    kinds = [{"name": kind, "set": {"parallel.data_parallel": kind}} for kind in ("ddp", "zero1", "fsdp")]
    strategy = load_cases(
        {
            **BASE,
            "variants": kinds,
            "ddp": {"bucket_cap_mb": "50 MiB"},
            "zero": {"overlap_comm": True, "reduce_bucket_size": "2e8", "allgather_bucket_size": "40M"},
            "fsdp": {"reshard_after_forward": False},
            "parallel": {"schedule": "GPipe", "pp": 2, "layers_per_stage": [20, 12], "overlap_p2p": True,
                         "order": ["dp", "pp", "tp"], "sequence_parallel": True},
            "network": "free",
            "price_per_gpu_hour": 2.5,
        }
    )[0].strategy  # fmt: skip
    assert strategy.ddp.bucket_cap_mb == 50
    assert strategy.zero == ZeroOptions(
        overlap_comm=True, reduce_bucket_size=200_000_000, allgather_bucket_size=40_000_000
    )
    assert not strategy.fsdp.reshard_after_forward
    assert (strategy.schedule, strategy.layers_per_stage, strategy.overlap_p2p) == ("gpipe", (20, 12), True)
    assert strategy.order == ("dp", "cp", "pp", "tp")
    assert not strategy.sequence_parallel  # nothing to shard over at tp 1


def test_a_synthetic_model_brings_its_stages():
    (only,) = load_cases(
        {
            "model": {"stages": 4, "forward_ns": "1 ms", "backward_ns": [1, 2, 3, "4 us"], "activation_bytes": "1 KiB"},
            "cluster": {"topology": "dgx-a100", "gpus": 8},
            "training": {"micro_batch_size": 1, "gradient_accumulation": 16},
            "network": "free",
        }
    )
    assert (only.strategy.pp, only.strategy.dp, only.network_free) == (4, 2, True)
    assert only.model.backward_ns == (1, 2, 3, 4000)
    assert only.model.activation_bytes == 1024


def test_few_micro_batches_are_warned_about():
    assert "4 pipeline ranks" in case(parallel={"pp": 4}, training={"global_batch_size": 4}).warnings[0]
    assert not case(parallel={"pp": 4}).warnings


@pytest.mark.parametrize(
    ("kind", "options", "field", "users"),
    [
        ("ddp", {"zero": {"overlap_comm": True}}, "zero.overlap_comm", "zero1, zero2 or zero3"),
        ("ddp", {"fsdp": {"reshard_after_forward": True}}, "fsdp.reshard_after_forward", "fsdp1, fsdp or hsdp"),
        ("zero1", {"ddp": {"bucket_cap_mb": 25}}, "ddp.bucket_cap_mb", "ddp"),
        ("zero3", {"zero": {"allgather_bucket_size": 10**8}}, "zero.allgather_bucket_size", "zero1 or zero2"),
    ],
)
def test_an_option_that_no_case_uses_is_refused_by_name(kind, options, field, users):
    data = {**BASE, **options, "parallel": {"data_parallel": kind}}
    with pytest.raises(ScenarioError) as caught:
        load_cases(data)
    (issue,) = caught.value.issues
    assert (issue.field, issue.problem) == (field, f"has no effect: no case uses data_parallel {users}")
    name = users.split()[-1]
    assert load_cases(data, overrides=[f"parallel.data_parallel={name}"])
    # One case that uses it is enough.
    assert load_cases({**data, "variants": [{"name": "a"}, {"name": "b", "set": {"parallel.data_parallel": name}}]})


def test_an_option_that_only_a_variant_sets_is_judged_as_well():
    variants = [{"name": "a"}, {"name": "b", "set": {"zero": {"reduce_bucket_size": 5}}}]
    with pytest.raises(ScenarioError, match=r"zero.reduce_bucket_size = 5: has no effect"):
        load_cases({**BASE, "variants": variants})


def test_zero3_honours_the_reduction_bucket():
    only = case(parallel={"data_parallel": "zero3"}, zero={"reduce_bucket_size": 10**8})
    assert only.strategy.zero.reduce_bucket_size == 10**8


@pytest.mark.parametrize(("kind", "warned"), [("zero1", False), ("zero2", True), ("zero3", True), ("fsdp", False)])
def test_what_deepspeed_refuses_is_simulated_with_a_warning(kind, warned):
    warnings = case(parallel={"data_parallel": kind, "pp": 2}).warnings
    assert [w for w in warnings if "DeepSpeed refuses" in w] == list(warnings)
    assert bool(warnings) == warned
    assert not case(parallel={"data_parallel": kind}).warnings


def test_a_price_without_tokens_is_warned_about():
    (warning,) = case(price_per_gpu_hour=2).warnings
    assert "price_per_gpu_hour has no effect without training.train_tokens" in warning
    assert not case(price_per_gpu_hour=2, training={"train_tokens": "1T"}).warnings


def test_models_by_dimensions_and_by_file(tmp_path):
    fields = {"layers": 32, "hidden": 4096, "heads": 32, "ffn": 11008, "vocab": 32000}
    assert load_cases({**BASE, "model": fields})[0].model.parameters == 6_738_415_616
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text(
        '{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,'
        ' "num_attention_heads": 32, "vocab_size": 32000}'
    )
    scenario = tmp_path / "s.yaml"
    for name in ("mine/config.json", "mine"):  # relative to the scenario, not to where we are
        scenario.write_text(
            f"model: {name}\ncluster: {{topology: dgx-a100, gpus: 1}}\n"
            "training: {sequence_length: 8, micro_batch_size: 1}\n"
        )
        model = load_cases(scenario)[0].model
        assert (model.name, model.parameters) == ("mine", 6_738_415_616)


@pytest.mark.parametrize("model", ["gpt-oss-20b", {"base": "gpt-oss-20b", "layers": 4}])
def test_what_is_left_out_of_a_bundled_model_is_said(model):
    (only,) = load_cases({**BASE, "model": model})
    assert only.warnings == ("gpt-oss-20b: model_type gpt_oss: attention sinks and the biases of experts are left out",)


def test_a_quantised_model_file_is_taken_with_a_warning(tmp_path):
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 8, "num_hidden_layers": 1,
              "num_attention_heads": 1, "vocab_size": 8}  # fmt: skip
    for quantised in (None, {"quant_method": "fp8"}):
        (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": quantised}))
        (only,) = load_cases({**BASE, "model": str(tmp_path)})
        assert [w for w in only.warnings if "quantization_config" in w] == list(only.warnings)
        assert bool(only.warnings) == (quantised is not None)


def test_a_scenario_is_read_from_a_pipe(tmp_path, write):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(write().read_text()))
    writer.start()
    assert load_cases(pipe)[0].strategy.tp == 2
    writer.join()


def test_the_files_that_were_read_are_known(tmp_path, write):
    topology = Path(__file__).parents[2] / "topologies" / "dgx-a100.yaml"
    (tmp_path / "mine.yaml").write_text(topology.read_text())
    path = write(("dgx-a100", "mine.yaml"))
    assert load_scenario(path).files == (path, tmp_path / "mine.yaml")


def test_names_of_strategies_and_schedules_come_from_where_they_are_built():
    properties = scenario_schema()["$defs"]["ParallelBlock"]["properties"]
    assert set(properties["data_parallel"]["enum"]) == set(STRATEGIES)
    assert properties["schedule"]["anyOf"][0]["enum"] == list(PIPELINE_SCHEDULES)


def test_overrides_come_before_variants(write):
    path = write(add="variants: [{name: a, set: {cluster.gpus: 4}}, {name: b}]\n")
    a, b = load_cases(path, overrides=["cluster.gpus=2", "training.precision=fp16"])
    assert (a.cluster.world_size, b.cluster.world_size) == (4, 2)
    assert a.training.precision == b.training.precision == "fp16"


def test_overrides_make_sections_and_null_unsets(write):
    (only,) = load_cases(write(), overrides=["zero.reduce_bucket_size=7", "parallel.data_parallel=zero2"])
    assert only.strategy.zero.reduce_bucket_size == 7
    (only,) = load_cases(write(), overrides=["parallel.tp=null", "training.global_batch_size="])
    assert (only.strategy.tp, only.training.accumulation) == (1, 1)


def test_equal_clusters_are_built_once(write):
    path = write(add="variants: [{name: a, set: {parallel.tp: 1}}, {name: b}, {name: c, set: {cluster.gpus: 4}}]\n")
    a, b, c = load_cases(path)
    assert a.cluster is b.cluster
    assert a.cluster is not c.cluster
    assert a.model is c.model


def test_names(write):
    scenario = load_scenario(write(add="name: Mine\n"))
    assert (scenario.name, scenario.stem, scenario.cases[0].name) == ("Mine", "s", "Mine")
    assert load_scenario(write(name="other.yaml")).name == "other"


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("four_vs_eight", ["4 GPUs", "8 GPUs", "8 GPUs with DDP"]),
        ("pipeline_bubble", ["M = 4", "M = 8", "M = 16", "M = 32"]),
        ("pipeline_ideal", ["1F1B, M = 16", "1F1B, M = 32", "GPipe, M = 16", "GPipe, M = 32"]),
        ("pipeline_schedules", ["GPipe", "1F1B", "Interleaved 1F1B", "ZB-H1", "ZBV"]),
        ("zero_stages", ["DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"]),
        ("tp_across_nodes", None),
    ],
)
def test_bundled_scenarios_load_by_name_without_warnings(name, cases):
    scenario = load_scenario(name)
    assert cases is None or [case.name for case in scenario.cases] == cases
    assert not any(case.warnings for case in scenario.cases)


def test_a_users_file_comes_before_a_bundled_one(tmp_path, monkeypatch, write):
    write(name="four_vs_eight")
    monkeypatch.chdir(tmp_path)
    assert len(load_cases("four_vs_eight")) == 1


@pytest.mark.parametrize(
    ("changes", "parameters"),
    [
        ({"base": "llama-2-7b", "layers": 31}, 6738415616 - (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096)),
        ({"base": "gpt2", "vocab": 1000}, 124439808 - (50257 - 1000) * 768),
        ({"base": "t5-large", "layers": 24}, 737668096),
        ({"base": "mixtral-8x7b", "mlp": "geglu"}, 46702792704),
        ({"base": "vit-large", "layers": 24}, bundled_model("vit-large").parameters),
    ],
)
def test_a_bundled_model_may_be_changed(changes, parameters):
    fixed = {"sequence_length": 128} if changes["base"] != "vit-large" else {}
    scenario = {
        "model": changes,
        "cluster": {"topology": "dgx-a100", "gpus": 1},
        "training": {"micro_batch_size": 1, **fixed},
    }
    (case,) = load_cases(scenario)
    assert case.model.parameters == parameters
    assert case.model.name.startswith(f"{changes['base']} (")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base": "llama-3-8", "layers": 2}, "model.base = llama-3-8: is neither bundled nor a file"),
        ({"base": "llama-3-8b", "hiden": 2}, "model.hiden = 2: is not a field of SimGPU; fix: did you mean model.hid"),
        ({"base": "resnet-50", "layers": 2}, "base = resnet-50 is no transformer"),
        ({"base": "bert-base", "experts": 2}, "experts is not a field of bert-base"),
        ({"base": "vit-large", "vocab": 2}, "vocab cannot be changed"),
        ({"base": "llama-2-7b", "experts": 8}, "experts_per_token is missing"),
        ({"base": "llama-2-7b", "hidden": 1000}, "hidden = 1000 is not a multiple of heads = 32; give head_dim"),
        ({"base": "mixtral-8x7b", "experts_per_token": 9}, "experts.active = 9 is more than the 8 experts"),
    ],
)
def test_changes_that_cannot_be_are_said(changes, words):
    scenario = {
        "model": changes,
        "cluster": {"topology": "dgx-a100", "gpus": 1},
        "training": {"sequence_length": 128, "micro_batch_size": 1},
    }
    with pytest.raises(ScenarioError) as error:
        load_cases(scenario)
    assert words in str(error.value)
