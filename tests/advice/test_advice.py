"""Levers tried on runs that disappoint: which, what they give, and that setting them gives just that."""

import json
from typing import get_args

import pytest

from simgpu.advice import disappointments
from simgpu.advice.levers import BUBBLE, EXPOSED, MEMORY, levers
from simgpu.advice.options import filled, frameworks, lever_options
from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.config.scenario_block import FrameworkField
from simgpu.errors import ScenarioError

PIPELINE = {
    "model": "llama-2-7b",
    "cluster": {"topology": "dgx-a100", "gpus": 4},
    "training": {"sequence_length": 2048, "micro_batch_size": 1, "gradient_accumulation": 4},
    "parallel": {"pp": 4},
}


def played(simgpu, tmp_path, scenario, *options):
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(scenario))
    outcome = simgpu("run", str(path), "--no-html", "--no-what-if", "--json", "-", *(options or ["--advice"]))
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["runs"], outcome.err


def changed(scenario, settings):
    found = json.loads(json.dumps(scenario))
    for path, value in settings.items():
        block, _, name = path.rpartition(".")
        if value is None:
            (found.get(block, {}) if block else found).pop(name, None)
        else:
            found.setdefault(block, {})[name] = value
    return found


def test_what_is_advised_is_what_the_changed_scenario_gives(simgpu, tmp_path):
    (run,), text = played(simgpu, tmp_path, PIPELINE)
    assert run["disappointments"] == [f"{run['bubble_fraction']:.0%} of the step is pipeline bubble"]
    names = [one["lever"] for one in run["advice"]]
    assert {"accumulation", "interleaving", "schedule"} <= set(names)
    gains = [one["tokens_per_s_gain"] for one in run["advice"]]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > 0.01
    for one in run["advice"]:
        (again,) = load_cases({"name": "s", **changed(PIPELINE, one["settings"])})
        report = simulate(again)
        assert report.step_time_ns == one["step_time_ns"]
        assert report.tokens_per_s / run["tokens_per_s"] - 1 == pytest.approx(one["tokens_per_s_gain"], rel=1e-6)
    assert "--num-virtual-stages-per-pipeline-rank 4" in " ".join(text.split())


def test_interleaving_of_a_free_network_gains_what_the_closed_form_says(simgpu, tmp_path):
    """Equal stages of a synthetic model: 1 + (p-1)/m over 1 + (p-1)/(v m)."""
    model = {"stages": 8, "forward_ns": 1000000, "backward_ns": 2000000}
    scenario = {**PIPELINE, "model": model, "network": "free", "parallel": {"pp": 4, "virtual_stages": 2},
                "training": {"micro_batch_size": 1, "gradient_accumulation": 4}}  # fmt: skip
    (run,), _ = played(simgpu, tmp_path, scenario)
    doubled = [one for one in run["advice"] if one["lever"] == "accumulation" and one["batch_factor"] == 2]
    assert doubled[0]["tokens_per_s_gain"] == pytest.approx((1 + 3 / 8) / (1 + 3 / 16) - 1)


def test_longer_runs_of_a_pipeline_gain_what_the_closed_form_says(simgpu, tmp_path):
    """k runs of m micro-batches take k (m + p - 1); torchtitan sets a run by its local batch."""
    model = {"stages": 4, "forward_ns": 1000000, "backward_ns": 2000000}
    scenario = {**PIPELINE, "model": model, "network": "free", "parallel": {"pp": 4, "pipeline_microbatches": 2},
                "training": {"micro_batch_size": 2, "gradient_accumulation": 8}, "framework": "torchtitan"}  # fmt: skip
    (run,), _ = played(simgpu, tmp_path, scenario)
    longer = {one["settings"]["parallel.pipeline_microbatches"]: one for one in run["advice"]
              if one["lever"] == "pipeline_run"}  # fmt: skip
    before = 4 * (2 + 3)
    assert longer[4]["tokens_per_s_gain"] == pytest.approx(before / (2 * (4 + 3)) - 1)
    assert longer[8]["tokens_per_s_gain"] == pytest.approx(before / (8 + 3) - 1)
    assert longer[8]["option"] == (
        "[training] local_batch_size = 16 (beside pipeline_parallel_microbatches: that to 8 too)"
    )
    batches = [
        one for one in levers(*load_cases({"name": "s", **scenario})) if "training.micro_batch_size" in one.settings
    ]
    found = {
        (one.name, one.settings["training.gradient_accumulation"]): (
            one.settings["parallel.pipeline_microbatches"],
            one.option,
        )
        for one in batches
    }
    smaller = (
        "[parallelism] pipeline_parallel_microbatch_size = {micro} (or pipeline_parallel_microbatches = {run}), "
        "[training] global_batch_size = {batch}"
    )
    assert found == {
        ("micro_batch", 16): (4, smaller),
        ("micro_batch", 4): (1, smaller),
        ("accumulation", 16): (2, "[training] global_batch_size = {batch}"),
        ("accumulation", 32): (2, "[training] global_batch_size = {batch}"),
    }


def test_memory_levers_make_it_fit(simgpu, tmp_path):
    scenario = {
        "model": "llama-2-7b",
        "cluster": {"topology": "dgx-a100", "gpus": 8},
        "training": {"sequence_length": 2048, "micro_batch_size": 2},
        "parallel": {"data_parallel": "ddp"},
    }
    (run,), _ = played(simgpu, tmp_path, scenario)
    assert not run["fits"]
    advice = {one["lever"]: one for one in run["advice"]}
    assert "fsdp" in str(advice["sharding"]["settings"]) or "zero" in str(advice["sharding"]["settings"])
    assert all(one["peak_memory_bytes"] < run["peak_memory_bytes"] for one in run["advice"])


def test_more_cards_that_hardly_help(simgpu, tmp_path):
    scenario = {
        "model": "gpt2-xl",
        "cluster": {"topology": "8x-a100-single-nic", "nodes": 1},
        "training": {"sequence_length": 1024, "micro_batch_size": 1, "gradient_accumulation": 1},
        "parallel": {"data_parallel": "ddp"},
        "network": {"nccl": {"ib_disable": True}},
        "variants": [{"name": "one node"}, {"name": "two nodes", "set": {"cluster.nodes": 2}}],
    }
    runs, _ = played(simgpu, tmp_path, scenario)
    assert any("times as fast as one node with 2 times the GPUs" in text for text in runs[1]["disappointments"])
    best = runs[1]["advice"][0]
    assert best["lever"] == "accumulation"
    assert best["batch_factor"] == 4


def test_a_run_that_is_well_has_no_advice(simgpu, tmp_path):
    well = {
        **PIPELINE,
        "cluster": {"topology": "dgx-a100", "gpus": 1},
        "parallel": {},
        "model": "bert-base",
        "training": {"sequence_length": 512, "micro_batch_size": 64},
    }
    (run,), _ = played(simgpu, tmp_path, well)
    assert run["advice"] is None
    assert run["disappointments"] == []


def test_it_can_be_left_out(simgpu, tmp_path):
    (run,), text = played(simgpu, tmp_path, PIPELINE, "--no-advice")
    assert run["advice"] is None
    assert "levers" not in text


def test_large_runs_are_told_of_the_option(simgpu, tmp_path):
    large = {**PIPELINE, "training": {**PIPELINE["training"], "gradient_accumulation": 12}}
    (run,), text = played(simgpu, tmp_path, large, "--no-fold")
    assert run["disappointments"]
    assert run["advice"] is None
    assert "--advice tries the usual levers" in text


def test_levers_are_named_by_the_frameworks_words():
    zero = {**PIPELINE, "parallel": {"data_parallel": "zero2"}}
    assert {"gradient_accumulation_steps: 8", "zero_optimization.overlap_comm: true"} <= advised(zero)
    assert {"--global-batch-size 8", "--num-virtual-stages-per-pipeline-rank 2"} <= advised(PIPELINE)


def advised(scenario):
    """Options of all levers that the scenario can have, with the numbers of the changed one."""
    found = set()
    for lever in levers(load_cases(scenario)[0]):
        try:
            (after,) = load_cases(changed(scenario, lever.settings))
        except ScenarioError:
            continue
        found.add(filled(lever.option, after))
    return found


FLAT = {**PIPELINE, "cluster": {"topology": "dgx-a100", "nodes": 2}, "parallel": {"data_parallel": "fsdp"}}


@pytest.mark.parametrize(
    ("framework", "scenario", "told", "lacks"),
    [
        ("torchtitan", FLAT,
         {"[training] global_batch_size = 128", '[activation_checkpoint] mode = "full"',
          "[training] local_batch_size = 2, [training] global_batch_size = 64",
          "[parallelism] data_parallel_replicate_degree = 2, data_parallel_shard_degree = 8"},
         ("DeepSpeed", "per_device")),
        ("torchtitan", PIPELINE,
         {"[training] local_batch_size = 8 (beside pipeline_parallel_microbatches: that to 8 too)",
          '[parallelism] pipeline_parallel_schedule = "Interleaved1F1B", pipeline_parallel_layers_per_stage = 4, '
          "pipeline_parallel_first_stage_less_layers = 0, pipeline_parallel_last_stage_less_layers = 0 "
          "(without module_fqns_per_model_part and split points)"},
         ("--", "zero-bubble")),
        ("nanotron", PIPELINE,
         {"tokens.batch_accumulation_per_replica: 8", "parallelism.recompute_layer: true"},
         ("virtual", "selective", "zero-bubble")),
        ("gptneox", PIPELINE, {"gradient_accumulation_steps: 8", "checkpoint_activations: true"}, ("virtual", "--")),
        ("axolotl", FLAT, {"fsdp_version: 2, dp_shard_size: 8, dp_replicate_size: 2", "gradient_accumulation_steps: 8"},
         ("fsdp_sharding_strategy", "per_device")),
        ("litgpt", FLAT, {"train.global_batch_size: 128",
                          "train.micro_batch_size: 2, train.global_batch_size: 64"}, ("fsdp", "checkpointing")),
        ("nemo", PIPELINE, {"model.global_batch_size: 8", "model.virtual_pipeline_model_parallel_size: 2"}, ("--",)),
        ("trainer", {**FLAT, "parallel": {"data_parallel": "zero2"}},
         {"gradient_accumulation_steps: 8", "per_device_train_batch_size: 2, gradient_accumulation_steps: 2"},
         ("train_micro", "selective")),
    ],
)  # fmt: skip
def test_a_framework_has_its_own_words_and_no_lever_that_it_lacks(framework, scenario, told, lacks):
    options = advised({**scenario, "framework": framework})
    assert told <= options
    assert not [option for option in options for word in lacks if word in option]


def test_the_frameworks_of_a_scenario_are_those_with_options():
    assert set(frameworks()) == set(get_args(FrameworkField))
    assert all(set(lever_options(name)) <= LEVERS for name in frameworks())


LEVERS = {
    "micro_batch", "micro_batch.pipeline", "micro_batch.runs", "accumulation", "pipeline_run", "accumulation.pipeline",
    "recompute.full", "recompute.selective", "recompute.none", "sharding.ddp", "sharding.zero1", "sharding.zero2",
    "sharding.zero3", "sharding.fsdp", "sharding.hsdp", "sharding.distributed_optimizer", "overlap.zero",
    "overlap.fsdp", "overlap.distributed_optimizer", "overlap.tp", "overlap.p2p", "overlap.p2p.interleaved",
    "bucket.zero", "bucket.ddp", "sequence_parallel", "interleaving", "schedule.zbh1", "schedule.1f1b",
    "tensor_parallel", "tensor_parallel.pipeline", "fused_loss",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ([], ["use_liger_kernel: true"]),
        (["framework=llamafactory"], ["enable_liger_kernel: true"]),
        (["framework=megatron"], []),
        (["parallel.tp=2"], []),
        (["software={preset: flash, cross_entropy: fused_linear}"], []),
    ],
)
def test_the_loss_in_chunks_is_tried_where_the_framework_has_it(changes, options):
    case = load_cases("four_vs_eight", overrides=changes)[0]
    found = [lever for lever in levers(case) if lever.name == "fused_loss"]
    assert [lever.option for lever in found] == options
    assert all(lever.settings == {"software.cross_entropy": "fused_linear"} for lever in found)
    assert all(lever.against == {MEMORY} for lever in found)


def test_an_imported_scenario_knows_its_framework(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 1\nseq_len = 2048\n")
    data = import_run([path], RunAnswers(topology="dgx-a100")).data
    assert data["framework"] == "torchtitan"
    assert load_cases(data)[0].framework == "torchtitan"


def test_reasons():
    report = simulate(load_cases(PIPELINE)[0])
    assert list(disappointments(report)) == [BUBBLE]
    (slow,) = load_cases({**PIPELINE, "parallel": {"tp": 4}, "network": {"nccl": {"p2p_disable": True}}})
    assert list(disappointments(simulate(slow))) == [EXPOSED]
    (large,) = load_cases(
        {**PIPELINE, "parallel": {"data_parallel": "ddp"}, "cluster": {"topology": "dgx-a100", "gpus": 2}}
    )
    assert MEMORY in disappointments(simulate(large))
