"""Sentences say what the numbers say."""

from dataclasses import replace

import pytest

import simgpu


@pytest.fixture(scope="module")
def four_vs_eight():
    return simgpu.run("four_vs_eight")


def test_four_against_eight_names_ratio_efficiency_and_why(four_vs_eight):
    four, eight, ddp = four_vs_eight
    first, second = simgpu.compare(four_vs_eight).splitlines()
    ratio = eight.tokens_per_s / four.tokens_per_s
    assert first.startswith(f"8 GPUs are {ratio:.2f}× faster than 4 ({100 * ratio / 2:.0f} %): ")
    assert "exposed data-parallel communication over NVLink" in first
    assert second.startswith("8 GPUs with DDP: OUT OF MEMORY on rank 0")
    assert four.fits
    assert eight.fits
    assert not ddp.fits


def test_ddp_is_told_what_would_make_it_fit(four_vs_eight):
    assert ". Fits with parallel.data_parallel: fsdp (31." in four_vs_eight[2].verdict
    assert four_vs_eight[2].memory_by_category_bytes["optimizer"] == 8 * 6_738_415_616


def test_hours_and_cost():
    overrides = ["training.train_tokens=1e9", "price_per_gpu_hour=2"]
    eight = simgpu.run("four_vs_eight", overrides=overrides)[1]
    assert eight.hours == pytest.approx(1e9 / eight.tokens_per_s / 3600)
    assert eight.gpu_hours == pytest.approx(8 * eight.hours)
    assert eight.cost == pytest.approx(2 * eight.gpu_hours)


def test_mfu_divides_model_flops_by_what_the_gpus_could_do(four_vs_eight):
    eight = four_vs_eight[1]
    tokens = 64 * 4096
    matmul = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 32000 * 4096
    flops = tokens * (6 * matmul + 12 * 32 * 4096 * 4096)
    assert eight.peak_flops_used == 312e12
    assert eight.mfu == pytest.approx(flops / (8 * 312e12 * eight.step_time_s))


def test_a_remedy_that_is_named_really_fits_and_one_that_would_not_is_not_named():
    def verdict(**parallel):
        mapping = {
            "name": "one",
            "model": "llama-2-7b",
            "cluster": {"topology": "dgx-a100", "gpus": parallel.pop("gpus")},
            "training": {"sequence_length": 4096, "micro_batch_size": 1, "gradient_accumulation": 2},
            "parallel": parallel,
        }
        return simgpu.run(mapping)[0].verdict

    assert "Even training.recompute: full needs" in verdict(gpus=1)
    assert "split the model further" in verdict(gpus=1)
    assert "recompute" not in verdict(gpus=8, data_parallel="ddp").partition("Fits with")[2]


def test_an_overflow_says_what_is_held_all_the_time_and_lists_parts_that_sum(four_vs_eight):
    ddp = four_vs_eight[2]
    text = ddp.verdict.partition(" at the peak (")
    assert "before the first step (101." in text[0]
    listed = [float(part.rpartition(" ")[2]) for part in text[2].partition(")")[0].split(", ")]
    assert sum(listed) == pytest.approx(ddp.peak_memory_bytes / (1 << 30), abs=0.3)


def test_a_gain_is_explained_by_what_shrank_and_a_loss_by_what_grew():
    # the first line names the fastest
    lines = simgpu.compare(simgpu.run("zero_stages")).splitlines()[1:]
    assert lines[0].startswith("ZeRO-1 is 1.0")
    assert ": of the step, exposed data-parallel communication 0.3 % → " in lines[0]
    assert ": of the step, optimizer 5." in lines[2]
    assert "exposed data-parallel communication 0.3 % → " in lines[1]


def test_different_models_are_not_compared():
    reports = [*simgpu.run("zero_stages")[:2], simgpu.run("pipeline_bubble")[3]]
    text = simgpu.compare(reports)
    assert "ZeRO-1 is" in text
    assert "M = 32 (llama-2-7b): " in text
    assert "M = 32 is" not in text


def test_the_link_named_is_the_one_that_is_full_under_sharing():
    mapping = {
        "name": "tp in the node",
        "model": "llama-3-8b",
        "cluster": {"topology": "8x-a100-single-nic", "nodes": 2},
        "training": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 16},
        "parallel": {"tp": 8, "data_parallel": "ddp"},
    }
    (report,) = simgpu.run(mapping)
    assert "exposed data-parallel communication over the network" in report.verdict
    (slow,) = [t for t in report.transfers if t.axis == "dp" and t.rank == 0][:1]
    assert "nic" in slow.bottleneck


def test_a_pipelines_bubble_stands_beside_its_ideal():
    reports = simgpu.run("pipeline_bubble")
    free_of_overheads = [3 / 7, 3 / 11, 3 / 19, 3 / 35]
    assert all(r.ideal_bubble_fraction < ideal for r, ideal in zip(reports, free_of_overheads, strict=True))
    assert all(report.bubble_fraction > report.ideal_bubble_fraction for report in reports)
    assert "stage 3 has" in reports[2].verdict, "the head makes the last stage the slowest"


def test_of_several_runs_the_fastest_is_named_first():
    """Five schedules with free messages: the zero-bubble one, and not the first of the file."""
    lines = simgpu.compare(simgpu.run("pipeline_schedules")).splitlines()
    assert lines[0] == "ZBV is the fastest of 5: 96 ms per step"
    many = [replace(report, name=f"run {place}") for place in range(20) for report in simgpu.run("four_vs_eight")[:1]]
    assert simgpu.compare(many).splitlines()[-1] == "and 8 more, in the table"
