"""A card that is nearly full is warned about: TensorAuto/OpenTau#273 found 91 % of it fine and 98 % slow."""

from simgpu.api import run


def test_the_warning_starts_above_93_percent_and_ends_where_nothing_fits():
    scenario = {
        "name": "nearly full",
        "model": "llama-2-7b",
        "cluster": {"topology": "dgx-a100"},
        "training": {"sequence_length": 512, "micro_batch_size": 1},
        "parallel": {"data_parallel": "fsdp"},
        "variants": [{"name": str(batch), "set": {"training.micro_batch_size": batch}} for batch in range(24, 36, 2)],
    }
    reports = run(scenario)
    shares = [report.peak_memory_bytes / report.capacity_bytes for report in reports]
    assert shares[0] < 0.93
    assert any(0.93 < share <= 1 for share in shares)
    assert shares[-1] > 1
    for report, share in zip(reports, shares, strict=True):
        assert report.fits == (share <= 1)
        assert any("allocation retries" in text for text in report.warnings) == (0.93 < share <= 1)
