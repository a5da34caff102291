"""What a scenario may say about its pipeline, and what it is told when that does not fit."""

import pytest

from simgpu.config import load_cases
from simgpu.errors import ScenarioError
from simgpu.io.schedule_csv import write_schedule_csv
from simgpu.parallel.schedules import build_schedule

BASE = {
    "name": "pipeline",
    "model": {"layers": 16, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 256},
    "cluster": {"topology": "dgx-a100", "gpus": 4},
    "training": {"sequence_length": 32, "micro_batch_size": 1, "gradient_accumulation": 8},
}
STAGES = {"stages": 8, "forward_ns": 1000, "backward_ns": 2000}


def strategy(model=None, folder=None, microbatches=8, **parallel):
    data = {**BASE, "parallel": parallel, **({"model": model} if model else {})}
    data["training"] = {**BASE["training"], "gradient_accumulation": microbatches}
    (case,) = load_cases(data)
    return case.strategy


def issues(**wanted):
    with pytest.raises(ScenarioError) as caught:
        strategy(**wanted)
    return [str(issue) for issue in caught.value.issues]


@pytest.mark.parametrize(
    ("parallel", "wanted"),
    [
        ({}, ("1f1b", 1)),
        ({"virtual_stages": 1}, ("1f1b", 1)),
        ({"virtual_stages": 2}, ("interleaved_1f1b", 2)),
        ({"schedule": "Interleaved1F1B", "virtual_stages": 4}, ("interleaved_1f1b", 4)),
        ({"schedule": "interleaved"}, ("interleaved_1f1b", 2)),
        ({"schedule": "ScheduleZBVZeroBubble"}, ("zbv", 2)),
        ({"schedule": "ZB1P"}, ("zbh1", 1)),
        ({"schedule": "DualPipe"}, ("dualpipe", 2)),
    ],
)
def test_schedules_have_the_frameworks_names_and_their_own_number_of_stages(parallel, wanted):
    found = strategy(pp=4, **parallel)
    assert (found.schedule, found.virtual_stages) == wanted


@pytest.mark.parametrize(
    ("parallel", "pp", "virtual"),
    [
        ({"schedule": "zbv"}, 4, 2),
        ({"virtual_stages": 2}, 4, 2),
        ({"schedule": "interleaved_1f1b", "pp": 2}, 2, 4),
    ],
)
def test_a_synthetic_models_stages_give_what_is_left_out(parallel, pp, virtual):
    found = strategy(STAGES, **parallel)
    assert (found.pp, found.virtual_stages) == (pp, virtual)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"schedule": "1f2b"}, "parallel.schedule = 1f2b: is no pipeline schedule; allowed: gpipe, 1f1b, inter"),
        ({"schedule": "zbv1"}, "fix: did you mean zbv?"),
        ({"schedule": "one_f_one_b"}, "fix: use 1f1b"),
        ({"schedule": 3}, "parallel.schedule = 3: is no pipeline schedule"),
        (
            {"schedule": "1f1b", "virtual_stages": 2},
            "parallel.virtual_stages = 2: is not what 1f1b takes; allowed: 1; fix: set parallel.schedule to inter",
        ),
        (
            {"schedule": "zbv", "virtual_stages": 4},
            "parallel.virtual_stages = 4: is not what zbv takes; allowed: 2; fix: leave virtual_stages out",
        ),
        (
            {"pp": 3},
            "allowed: 1, 2, 4; fix: choose one of these, or take a multiple of 3 GPUs and write parallel.layer",
        ),
        (
            {"schedule": "dualpipev", "microbatches": 1},
            "training.gradient_accumulation = 1: makes 1 micro-batch a step for dualpipev, and 1 is fewer than twice",
        ),
        ({"pp": 1, "schedule": "dualpipe"}, "parallel.schedule = dualpipe: needs a pipeline: parallel.pp = 1 is odd"),
        ({"virtual_stages": 3}, "parallel.pp = 4: makes 12 stages, 3 a rank, which do not divide the 16 layers"),
        ({"virtual_stages": 8}, "parallel.pp = 4: makes 32 stages, 8 a rank, more than the 16 layers"),
        ({"virtual_stages": 2, "layers_per_stage": [4, 4, 4, 4]}, "has 4 entries for 8 pipeline stages; fix: use [2, "),
        (
            {"virtual_stages": 2, "microbatches": 9},
            "training.gradient_accumulation = 9: makes 9 micro-batches a step for interleaved_1f1b, and 9 is no "
            "multiple of its 2 rounds",
        ),
        ({"schedule": "dualpipev", "microbatches": 6}, "allowed: 8 or more micro-batches"),
        ({"schedule": "dualpipe", "microbatches": 9}, "DualPipe sends half of them from either end"),
        ({"model": STAGES, "schedule": "1f1b"}, "parallel.pp = 4: is not the 8 stages of the synthetic model"),
        (
            {"model": STAGES, "schedule": "zbv", "pp": 2},
            "parallel.pp = 2: makes 4 stages, not the 8 stages of the synthetic model; fix: leave parallel.pp out, or",
        ),
        ({"schedule": "none.csv"}, "parallel.schedule = none.csv: there is no file"),
    ],
)
def test_what_does_not_fit_is_said_with_a_way_out(wanted, words):
    texts = issues(**{"pp": 4, **wanted})
    assert any(words in text for text in texts), texts
    assert len(texts) == 1


def test_stages_need_a_pipeline():
    (text,) = issues(virtual_stages=2)
    assert "parallel.virtual_stages = 2: has no pipeline to interleave" in text


def test_uneven_stages_are_given_for_every_chunk():
    layers = [1, 2, 2, 3, 2, 2, 2, 2]
    assert strategy(pp=4, virtual_stages=2, layers_per_stage=layers).layers_per_stage == tuple(layers)


def write(path, name="zbv", ranks=4, microbatches=8):
    path.write_text(write_schedule_csv(build_schedule(name, ranks=ranks, microbatches=microbatches)))
    return str(path)


def test_a_csv_brings_its_own_ranks_and_stages(tmp_path):
    found = strategy(schedule=write(tmp_path / "mine.csv"))
    assert (found.schedule, found.pp, found.virtual_stages, found.table.stages) == ("mine.csv", 4, 2, 8)


def test_a_csv_is_found_beside_the_scenario(tmp_path):
    write(tmp_path / "mine.csv")
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "model: gpt2\ncluster: {topology: dgx-a100, gpus: 2}\n"
        "training: {sequence_length: 64, micro_batch_size: 1, gradient_accumulation: 8}\n"
        "parallel: {schedule: mine.csv}\n"
    )
    write(tmp_path / "mine.csv", ranks=2)
    (case,) = load_cases(scenario)
    assert case.strategy.table.ranks == 2


def test_a_csv_that_does_not_fit_or_cannot_run_is_refused(tmp_path):
    path = write(tmp_path / "mine.csv")
    assert "is not the 4 ranks of the schedule mine; allowed: 4; fix: leave it out" in issues(schedule=path, pp=2)[0]
    assert "is not the 2 stages a rank of the schedule mine" in issues(schedule=path, virtual_stages=1)[0]
    assert "makes 6 micro-batches, and the schedule mine is for 8" in issues(schedule=path, microbatches=6)[0]
    stuck = tmp_path / "stuck.csv"
    stuck.write_text("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n")
    (text,) = issues(schedule=str(stuck))
    assert "cannot run: rank 0, slot 1: 0B0 waits for ever" in text
    assert "; rank 1, slot 0: 1F1 waits for ever" in text, "both faults are told"
    assert "fix: simgpu schedule" in text
    stuck.write_text("0F0,0X0\n")
    assert any("0X0" in text for text in issues(schedule=str(stuck)))


def test_stages_of_a_csv_may_be_uneven_over_its_ranks_and_over_the_layers(tmp_path):
    """Two stages on rank 0, one on rank 1."""
    path = tmp_path / "mine.csv"
    path.write_text("0F0,2F0,2B0,0B0\n1F0,1B0\n")
    (text,) = issues(schedule=str(path), microbatches=1)
    assert "has 3 stages, which do not divide the 16 layers of inline" in text
    assert text.endswith("fix: write parallel.layers_per_stage: [6, 5, 5]")
    found = strategy(schedule=str(path), microbatches=1, layers_per_stage=[6, 5, 5])
    assert (found.pp, found.table.stages) == (2, 3)


def warnings(gpus=4, microbatches=8, training=None, **parallel):
    data = {**BASE, "cluster": {"topology": "dgx-a100", "gpus": gpus}, "parallel": parallel}
    data["training"] = {**BASE["training"], "gradient_accumulation": microbatches, **(training or {})}
    (case,) = load_cases(data)
    return case.warnings


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"schedule": "zbv"}, "parallel.schedule zbv has no effect: parallel.pp is 1"),
        ({"schedule": "gpipe", "pp": 1}, "parallel.schedule gpipe has no effect: parallel.pp is 1"),
        ({"overlap_p2p": True}, "parallel.overlap_p2p has no effect: parallel.pp is 1"),
        ({"sequence_parallel": True}, "parallel.sequence_parallel has no effect: parallel.tp is 1"),
        ({"tp_overlap": True}, "parallel.tp_overlap has no effect: parallel.tp is 1"),
        ({"cp_comm_type": "a2a"}, "parallel.cp_comm_type has no effect: parallel.cp is 1"),
        (
            {"scatter_gather_tensors_in_pipeline": True},
            "parallel.scatter_gather_tensors_in_pipeline has no effect: parallel.pp is 1",
        ),
        (
            {"pp": 4, "layers_per_stage": [8, 0, 0, 8]},
            "parallel.layers_per_stage leaves stages 1, 2 without layers: activations only pass through them",
        ),
        (
            {"pp": 4, "layers_per_stage": [8, 0, 8, 0]},
            "parallel.layers_per_stage leaves stage 1 without layers: activations only pass through it",
        ),
        (
            {"training": {"recompute": "full", "recompute_layers": 17}},
            "training.recompute_layers 17 is more than the 16 layers of the model: all of them are recomputed",
        ),
        (
            {"pp": 2, "layers_per_stage": [6, 10], "training": {"recompute": "full", "recompute_layers": 11}},
            "training.recompute_layers 11 is more than the 10 layers of any pipeline stage: all of them are recomputed",
        ),
        (
            {"pp": 4, "microbatches": 1},
            "1 micro-batch for 4 pipeline ranks: some rank always idles; raise training.global_batch_size or lower "
            "training.micro_batch_size",
        ),
        ({"schedule": "1f1b"}, None),
        ({"pp": 4, "schedule": "zbv", "overlap_p2p": True}, None),
        ({"pp": 4, "layers_per_stage": [0, 8, 8, 0]}, None),
        ({"pp": 2, "layers_per_stage": [6, 10], "training": {"recompute": "full", "recompute_layers": 10}}, None),
        ({"pp": 2, "microbatches": 2}, None),
    ],
)
def test_what_has_no_effect_is_said(wanted, expected):
    assert warnings(**wanted) == (() if expected is None else (expected,))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"order": ["pp", "dp", "tp"], "cp": 2}, "leaves out cp; allowed: pp, dp, cp and tp in some order, slowest "
         "first; fix: such as [pp, dp, cp, tp]"),
        ({"order": ["tp", "dp"]}, "leaves out pp; allowed: pp, dp and tp in some order, slowest first; "
         "fix: such as [pp, tp, dp]"),
        ({"order": ["tp", "dp", "pp", "tp"]}, "names tp twice; allowed: pp, dp and tp in some order, slowest first; "
         "fix: such as [tp, dp, pp]"),
        ({"order": ["tp", "dp", "tp"]}, "leaves out pp and names tp twice"),
    ],
)  # fmt: skip
def test_an_order_that_is_none_is_told_which_axes_it_lacks(wanted, words):
    (text,) = issues(**wanted)
    assert words in text
