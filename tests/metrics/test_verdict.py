"""Sentences say what the numbers say."""

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
    assert "parallel.data_parallel: fsdp" in four_vs_eight[2].verdict
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


def test_a_pipelines_bubble_stands_beside_its_ideal():
    reports = simgpu.run("pipeline_bubble")
    assert [report.ideal_bubble_fraction for report in reports] == [3 / 7, 3 / 11, 3 / 19, 3 / 35]
    assert all(report.bubble_fraction > report.ideal_bubble_fraction for report in reports)
    assert "stage 3 has" in reports[2].verdict, "the head makes the last stage the slowest"
