"""What lies behind the reports on torch.nn.DataParallel."""

from simgpu.api import simulate
from simgpu.config import load_cases


def run(kind, gpus, *, model, topology="8x-rtx3090", micro_batch=8, sequence=None, precision="fp32", **software):
    training = {"micro_batch_size": micro_batch, "precision": precision}
    if sequence:
        training["sequence_length"] = sequence
    (case,) = load_cases(
        {
            "name": "case",
            "model": model,
            "cluster": {"topology": topology, "gpus": gpus},
            "training": training,
            "parallel": {"data_parallel": kind},
            "software": {"preset": "eager", **software},
        }
    )
    return simulate(case)


def images_per_s(report, micro_batch):
    return report.gpus * micro_batch / report.step_time_s


def test_gpu_0_alone_holds_states_and_what_was_gathered():
    """What makes it two to three times as full as the others (row 27 of the table)."""
    lead, other = run(
        "dataparallel", 8, model="gpt2", topology="dgx-a100", sequence=1024, micro_batch=2, precision="bf16"
    ).ranks
    assert lead.memory_at_peak_bytes["gathered outputs"] > 7 * other.memory_at_peak_bytes.get("logits", 0)
    assert {"optimizer", "gradients"} <= lead.memory_at_peak_bytes.keys() - other.memory_at_peak_bytes.keys()


def test_dataparallel_scales_worse_than_ddp():
    """facebookresearch/SING#3 went from 85 to 570 examples a second on 8 GPUs, 6.7 times; little work does not."""
    plain = images_per_s(run("none", 1, model="resnet-50", micro_batch=4), 4)
    threads = images_per_s(run("dataparallel", 8, model="resnet-50", micro_batch=4), 4)
    ddp = images_per_s(run("ddp", 8, model="resnet-50", micro_batch=4), 4)
    assert threads < 0.75 * ddp
    assert threads < 6 * plain
