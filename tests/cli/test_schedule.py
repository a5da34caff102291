import json
from pathlib import Path

import pytest

from simgpu.parallel.schedules import PIPELINE_SCHEDULES

REAL = Path(__file__).parents[3] / "shared" / "inputs" / "pipeline-schedules"


def test_csv_is_pytorchs(simgpu, tmp_path):
    outcome = simgpu(
        "schedule", "Interleaved1F1B", "--stages", 2, "--virtual", 2, "--microbatches", 4, "--format", "csv"
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == (
        "0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3\n"
        ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3\n"
    )
    assert not list(tmp_path.iterdir())


def test_the_grid_is_drawn_in_time(simgpu):
    outcome = simgpu("schedule", "1f1b", "-p", 2, "-m", 2)
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "step  rank 0  rank 1", "   0  0F0", "   1  0F1     1F0", "   2          1B0", "   3  0B0     1F1",
        "   4          1B1", "   5  0B1",
    ]  # fmt: skip


@pytest.mark.parametrize("name", PIPELINE_SCHEDULES)
def test_what_is_written_is_read_again(simgpu, tmp_path, name):
    numbers = ("-p", 4, "-m", 8)
    if name == "dualpipe":
        assert "dualpipe has no CSV" in simgpu("schedule", name, *numbers, "--format", "csv").err
        assert "0F3+3B5" in simgpu("schedule", name, *numbers).out
        return
    made = simgpu("schedule", name, *numbers, "--format", "csv")
    assert made.code == 0, made.err
    (tmp_path / "mine.csv").write_text(made.out)
    assert simgpu("schedule", "mine.csv").out == simgpu("schedule", name, *numbers).out
    assert simgpu("schedule", "mine.csv", "--format", "csv").out == made.out


def test_json(simgpu, tmp_path):
    outcome = simgpu("schedule", "zbv", "-p", 2, "-m", 2, "--json", "-")
    data = json.loads(outcome.out)
    assert [[cell for cell in row if cell] for row in data["rows"]] == [
        ["0F0", "0F1", "3F0", "3I0", "3W0", "3F1", "3I1", "3W1", "0I0", "0W0", "0I1", "0W1"],
        ["1F0", "2F0", "1F1", "2F1", "2I0", "2W0", "1I0", "1W0", "2I1", "2W1", "1I1", "1W1"],
    ]
    assert (data["name"], data["ranks"], data["stages"], data["microbatches"]) == ("zbv", 2, 4, 2)
    assert (data["rank_of_stage"], data["mirrored_from"]) == ([0, 1, 1, 0], None)
    simgpu("schedule", "zbv", "-p", 2, "-m", 2, "--json", "x.json")
    assert json.loads((tmp_path / "x.json").read_text()) == data


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("1f1b",), "--stages P is missing; fix: add it, as in simgpu schedule 1f1b --stages 4"),
        (("1f1b", "-p", 2), "--microbatches M is missing; fix: add it, as in simgpu schedule 1f1b --stages 2 --micro"),
        (("1f1b", "-p", 0, "-m", 1), "--stages = 0: is below 1"),
        (("zbv", "-p", 4, "-m", 8, "-v", 3), "--virtual = 3: is not what zbv takes; allowed: 2"),
        (("interleaved_1f1b", "-p", 4, "-m", 9), "--microbatches = 9: is no multiple of its 2 rounds"),
        (("dualpipev", "-p", 4, "-m", 7), "--microbatches = 7: is fewer than twice the 4 ranks"),
        (("dualpipe", "-p", 3, "-m", 8), "--stages = 3: is odd"),
        (("1f2b", "-p", 4, "-m", 8), "NAME = 1f2b: is no pipeline schedule, and no file; allowed: gpipe, 1f1b"),
        (("1f2b", "-p", 4, "-m", 8), "fix: did you mean 1f1b"),
        (("absent.csv",), "absent.csv: cannot be read: No such file"),
        (("1f1b", "-p", 4, "-m", 8, "--format", "svg"), "--format svg: is no format; allowed: grid, csv"),
        (("1f1b", "-p", 10**6, "-m", 10**6), "--stages = 1000000: makes a table too large to draw: 1000000 ranks with"),
        (
            ("gpipe", "-p", 100_000, "-m", 1),
            "--stages = 100000: makes a table too large to draw: 100000 ranks with 1 forw",
        ),
        (("1f1b", "-p", 4, "-m", 10**6), "--microbatches = 1000000: makes a table too large to draw"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_sentence(simgpu, tmp_path, arguments, message):
    outcome = simgpu("schedule", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0F0,0B0x\n", "m.csv:1: column 2 = 0B0x: is no action; allowed: nothing, stage + F, I, W or B + microbatch"),
        ("0F0\n0FULL_BACKWARD1\n", "m.csv:2: column 1 = 0FULL_BACKWARD1: is no action"),
        ("0F0,0B0,0UNSHARD0\n", "column 3 = 0UNSHARD0: is no action"),
        ("(0F0;0B0)OVERLAP,0B0\n", "column 1 = (0F0;0B0)OVERLAP: is no action"),
        ("0F0,0B0\n1F0,0B0,1B0\n", "m.csv:2: column 2 = 0B0: stage 0 is on rank 0 already"),
        ("0F0,0B0\n2F0,2B0\n", "m.csv:2: column 1 = 2F0: stage 2 is there and stage 1 is not"),
        (
            "0F0,0B0,0F3,0B3\n",
            "m.csv:1: column 3 = 0F3: microbatch 3 is there and microbatch 1 is not; "
            "allowed: microbatches from 0 without a gap",
        ),
        ("0F99999999,0B0\n", "column 1 = 0F99999999: is no action"),
        ("\n", "m.csv: holds no action that computes"),
        ('"0F0', "m.csv:1: is no CSV: unexpected end of data"),
        ("٠F0,0B0\n", "column 1 = ٠F0: is no action"),
    ],
)
def test_a_bad_cell_is_named_with_line_and_column(simgpu, tmp_path, text, message):
    (tmp_path / "m.csv").write_text(text, encoding="utf-8")
    outcome = simgpu("schedule", "m.csv")
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_every_bad_cell_is_named_at_once(simgpu, tmp_path):
    (tmp_path / "m.csv").write_text("0F0,x,0B0\ny\n")
    outcome = simgpu("schedule", "m.csv")
    assert outcome.err.startswith("error: 2 problems\nm.csv:1: column 2 = x: is no action")
    assert "\nm.csv:2: column 1 = y: is no action" in outcome.err


def test_an_order_that_cannot_run_is_shown_with_its_cells_marked(simgpu, tmp_path):
    (tmp_path / "m.csv").write_text("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n")
    outcome = simgpu("schedule", "m.csv")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: m.csv: cannot run: 2 faults\nstep  rank 0  rank 1\n")
    assert "   0  0F0     >1F1<   <-- rank 1: 1F1 waits for ever for the forward of stage 0" in outcome.err
    assert "   1  >0B0<   1B1     <-- rank 0: 0B0 waits for ever for the backward of stage 1" in outcome.err


def test_two_faults_of_one_cell_are_both_told(simgpu, tmp_path):
    (tmp_path / "m.csv").write_text("0F0,(0F0;0B1)OVERLAP_F_B,0F1,0B0\n")
    outcome = simgpu("schedule", "m.csv")
    assert outcome.err.startswith("error: m.csv: cannot run: 2 faults\n")
    reasons = "<-- rank 0: 0F0 was done in slot 0 already; 0B1 comes before 0F1\n"
    assert f"   1  >0F0+0B1<  {reasons}" in outcome.err


def test_a_file_says_its_numbers_itself(simgpu, tmp_path):
    (tmp_path / "m.csv").write_text("0F0,0B0\n")
    outcome = simgpu("schedule", "m.csv", "-p", 1)
    assert (outcome.code, outcome.out) == (2, "")
    assert "is a file, which says itself" in outcome.err
    assert outcome.err.endswith("fix: leave --stages out\n")
    assert simgpu("schedule", "m.csv", "--json", "m.csv").code == 2
    assert (tmp_path / "m.csv").read_text() == "0F0,0B0\n"


def test_the_old_letter_for_the_input_gradient_is_understood(simgpu, tmp_path):
    (tmp_path / "m.csv").write_text("0F0,0B0,0W0\n")
    assert simgpu("schedule", "m.csv", "--format", "csv").out == "0F0,0I0,0W0\n"


@pytest.mark.skipif(not REAL.is_dir(), reason="the frameworks' own tables are not here")
def test_a_table_with_messages_is_read(simgpu):
    outcome = simgpu("schedule", REAL / "torch291-interleaved1f1b-pp2-v2-mb4-with-comms.csv")
    assert outcome.out == simgpu("schedule", "interleaved_1f1b", "-p", 2, "-v", 2, "-m", 4).out


def test_runs_of_fewer_microbatches(simgpu):
    command = ["schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--pipeline-microbatches", "2"]
    data = json.loads(simgpu(*command, "--json", "-").out)
    assert (data["microbatches"], data["pipeline_microbatches"]) == (4, 2)
    order = [cell for cell in data["rows"][0] if cell]
    assert order == ["0F0", "0F1", "0B0", "0B1", "0F2", "0F3", "0B2", "0B3"]
    refused = simgpu(*command[:-1], "3")
    assert refused.code == 2
    assert "--pipeline-microbatches = 3: does not divide the 4 micro-batches of a step" in refused.err


def test_runs_are_not_for_a_file(simgpu, tmp_path):
    (tmp_path / "one.csv").write_text("0F0,0B0\n")
    refused = simgpu("schedule", str(tmp_path / "one.csv"), "--pipeline-microbatches", "1")
    assert "leave --pipeline-microbatches out" in refused.err
