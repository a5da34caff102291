"""Orders of the pipeline schedules against those that the frameworks' own code wrote, cell by cell."""

import csv
import re
from pathlib import Path

import pytest

from simgpu.io.schedule_csv import read_schedule_csv, write_schedule_csv
from simgpu.parallel.messages import with_messages
from simgpu.parallel.schedule_check import check_schedule
from simgpu.parallel.schedule_grid import schedule_grid
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, build_schedule, refusal, schedule_name, slot_text
from simgpu.parallel.schedules.interleaved import interleaved_schedule, refuse_group

REAL = Path(__file__).parents[3] / "shared" / "inputs" / "pipeline-schedules"
GOLDEN = Path(__file__).parent / "golden"
NAME = re.compile(r"torch291-(?P<name>\w+)-pp(?P<ranks>\d+)(?:-v(?P<virtual>\d+))?-mb(?P<microbatches>\d+)")
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="the frameworks' own tables are not here")


def files(pattern):
    return [pytest.param(path, id=path.stem) for path in sorted(REAL.glob(pattern))]


def table(path):
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


def built(path):
    found = NAME.match(path.name)
    numbers = {key: int(found[key]) for key in ("ranks", "microbatches")}
    return build_schedule(found["name"], virtual=int(found["virtual"] or 1), **numbers)


@needs_real
def test_all_the_real_tables_are_compared():
    assert len(files("torch291-*[0-9].csv")) == 30
    assert len(files("torch291-*-with-comms.csv")) == 3


@pytest.mark.parametrize("path", files("torch291-*[0-9].csv"))
def test_cells_equal_those_of_pytorch(path):
    schedule = built(path)
    cells = [[slot_text(slot) for slot in row] for row in schedule.rows]
    real = table(path)
    if schedule.name == "1f1b":  # PyTorch's table of it counts the last rank's forwards from 1
        last = schedule.ranks - 1
        real[-1] = [f"{last}F{int(cell.split('F')[1]) - 1}" if "F" in cell else cell for cell in real[-1]]
    assert cells == real


@pytest.mark.parametrize("path", files("torch291-*-with-comms.csv"))
def test_messages_stand_where_pytorch_puts_them(path):
    assert [[str(cell) for cell in row] for row in with_messages(built(path))] == table(path)


@needs_real
@pytest.mark.parametrize(
    ("name", "kind", "ranks", "microbatches"),
    [
        ("torch-artifact-zb1p_2rank_2stagep_compute.csv", "InterleavedZeroBubble", 2, 8),
        ("torch-artifact-dualpipev_4rank_10mb.csv", "DualPipeV", 4, 10),
    ],
)
def test_pytorchs_own_test_artifacts_are_read_and_made(name, kind, ranks, microbatches):
    read, made = read_schedule_csv(REAL / name), build_schedule(kind, ranks=ranks, microbatches=microbatches)
    assert read.placement == made.placement
    assert [read.order(rank) for rank in range(ranks)] == [made.order(rank) for rank in range(ranks)]


@pytest.mark.parametrize("path", [p for p in files("torch*.csv") if "-1f1b-" not in str(p.values[0])])
def test_every_real_csv_is_a_sound_schedule(path):
    assert check_schedule(read_schedule_csv(path)) == ()


@needs_real
def test_the_faulty_1f1b_table_is_refused_with_its_cell():
    faults = check_schedule(read_schedule_csv(REAL / "torch291-1f1b-pp2-mb4.csv"))
    assert str(faults[0]) == "rank 1, slot 2: 1B0 comes before 1F0"


@needs_real
def test_interleaved_order_equals_megatrons():
    rows = csv.DictReader((REAL / "megatron-interleaved-warmup-and-order.csv").read_text().splitlines())
    compared = 0
    for row in rows:
        ranks, virtual, microbatches, group = (int(row[key]) for key in ("pp", "v", "microbatches", "group"))
        if virtual == 1:
            continue
        schedule = interleaved_schedule(ranks, virtual, microbatches, group=group)
        signed = [(a.stage // ranks + 1) * (1 if a.kind == "F" else -1) for a in schedule.order(int(row["rank"]))]
        assert signed == [int(chunk) for chunk in row["order(+chunk=forward -chunk=backward)"].split()]
        compared += 1
    assert compared >= 20


@needs_real
def test_chunks_and_microbatches_equal_megatrons_schedule_table():
    lines = (REAL / "megatron-get_schedule_table.txt").read_text().splitlines()
    for title, microbatches, chunks in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        number = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", title)}
        schedule = interleaved_schedule(
            1, number["num_model_chunks"], number["num_microbatches"],
            group=number["microbatch_group_size_per_vp_stage"],
        )  # fmt: skip
        forwards = [action for action in schedule.order(0) if action.kind == "F"]
        assert [a.microbatch for a in forwards] == [int(m) for m in microbatches.split(",")[1:]]
        assert [a.stage for a in forwards] == [int(c) for c in chunks.split(",")[1:]]


@pytest.mark.parametrize("path", files("deepspeed-trainschedule-*.txt"))
def test_1f1b_order_equals_deepspeeds(path):
    ranks, microbatches = map(int, re.search(r"s(\d+)-mb(\d+)", path.name).groups())
    schedule = build_schedule("1f1b", ranks=ranks, microbatches=microbatches)
    stages = path.read_text().split("# stage")[1:]
    assert len(stages) == ranks
    for rank, text in enumerate(stages):
        assert re.findall(r"(Forward|Backward)Pass", text) == [
            "Forward" if action.kind == "F" else "Backward" for action in schedule.order(rank)
        ]


def test_weight_gradients_of_zbh1_are_those_of_interleaved_zero_bubble_with_one_chunk():
    for ranks, microbatches in ((1, 3), (3, 6), (4, 8), (4, 16)):
        one = build_schedule("zbh1", ranks=ranks, microbatches=microbatches)
        other = build_schedule("InterleavedZeroBubble", ranks=ranks, virtual=1, microbatches=microbatches)
        assert [one.order(rank) for rank in range(ranks)] == [other.order(rank) for rank in range(ranks)]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_small_tables(path):
    """What no framework wrote for us, looked through once by hand; names are name-ranks-virtual-microbatches."""
    name, *numbers = path.stem.split("-")
    ranks, virtual, microbatches = map(int, numbers)
    schedule = build_schedule(name, ranks=ranks, virtual=virtual, microbatches=microbatches)
    assert schedule_grid(schedule) + "\n" == path.read_text()


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("GPipe", "gpipe"), ("1F1B", "1f1b"), ("Interleaved1F1B", "interleaved_1f1b"),
        ("ScheduleInterleaved1F1B", "interleaved_1f1b"), ("LoopedBFS", "looped_bfs"), ("ZB-H1", "zbh1"),
        ("ZB2P", "zb2p"), ("ZB-H2", "zbh2"), ("InterleavedZeroBubble", "interleaved_zero_bubble"),
        ("ZBVZeroBubble", "zbv"),
        ("ScheduleZBVZeroBubble", "zbv"), ("DualPipeV", "dualpipev"), ("Hanayo", "hanayo"), ("1f2b", None),
    ],
)  # fmt: skip
def test_the_frameworks_own_names_are_understood(alias, name):
    assert schedule_name(alias) == name


@pytest.mark.parametrize(
    ("name", "numbers", "words"),
    [
        ("1f1b", (4, 2, 8), "virtual = 2: is not what 1f1b takes; allowed: 1"),
        ("zbv", (4, 1, 8), "virtual = 1: is not what zbv takes; allowed: 2"),
        ("hanayo", (4, 3, 8), "allowed: an even number"),
        ("interleaved_1f1b", (4, 2, 9), "microbatches = 9: is no multiple of its 2 rounds"),
        ("interleaved_zero_bubble", (4, 2, 9), "microbatches = 9: is no multiple of its 2 rounds"),
        ("dualpipev", (4, 2, 7), "microbatches = 7: is fewer than twice the 4 ranks"),
        ("dualpipe", (3, 2, 8), "ranks = 3: is odd"),
        ("dualpipe", (4, 2, 9), "microbatches = 9: is odd"),
        ("gpipe", (0, 1, 9), "ranks = 0: is below 1"),
        ("gpipe", (10_000, 1, 10_000), "ranks = 10000: makes a table too large to draw: 10000 ranks with 10000 forw"),
        ("gpipe", (100_000, 1, 1), "allowed: 1 to 546"),
        (
            "looped_bfs",
            (100, 2, 1451),
            "microbatches = 1451: makes a table too large to draw: 100 ranks with 2902 forw",
        ),
        ("looped_bfs", (100, 2, 1451), "allowed: 1 to 1450"),
        ("looped_bfs", (100, 2901, 1), "virtual = 2901: makes a table too large to draw"),
    ],
)
def test_what_the_framework_refuses_is_refused_with_its_reason(name, numbers, words):
    ranks, virtual, microbatches = numbers
    assert words in str(refusal(name, ranks=ranks, virtual=virtual, microbatches=microbatches))


def test_the_largest_tables_are_accepted():
    assert refusal("looped_bfs", ranks=100, virtual=2, microbatches=1450) is None
    assert refusal("gpipe", ranks=546, virtual=1, microbatches=1) is None


def test_megatrons_groups():
    assert refuse_group(4, 8, 4) is None
    assert refuse_group(4, 12, 8) is None
    assert "is out of range" in str(refuse_group(4, 8, 3))
    assert "leaves a last group of 2" in str(refuse_group(4, 10, 8))


def test_every_schedule_is_written_and_read_back(tmp_path):
    for name, kind in PIPELINE_SCHEDULES.items():
        if name == "dualpipe":
            continue
        made = build_schedule(name, ranks=2, microbatches=4, virtual=kind.default_virtual)
        path = tmp_path / f"{name}.csv"
        path.write_text(write_schedule_csv(made))
        assert read_schedule_csv(path) == made
