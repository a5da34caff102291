import pytest

from simgpu.config.sweep_grid import LARGEST_GRID, load_grid
from simgpu.errors import ScenarioError


def issues(path, overrides=()):
    with pytest.raises(ScenarioError) as caught:
        load_grid(path, overrides=overrides)
    return [str(issue) for issue in caught.value.issues]


@pytest.mark.parametrize(
    ("add", "words"),
    [
        ("", "sweep: is missing; fix: add a grid"),
        ("sweep: {}\n", "sweep: names no field"),
        ("sweep: [1, 2]\n", "sweep: is no mapping of fields"),
        (
            "sweep: {parallel.pp: 2}\n",
            "sweep.parallel.pp = 2: is no list of values; allowed: a list such as [1, 2, 4, 8]",
        ),
        ("sweep: {parallel.pp: []}\n", "has no values"),
        ("sweep: {parallel.pp: [1, 2, 1]}\n", "has 1 twice; fix: list every value once"),
        ("sweep: {parallel.pp: [1, two]}\n", "parallel.pp = two: does not start with a number"),
        ("sweep: {parallel.pp: [0, 1]}\n", "parallel.pp = 0: is below 1"),
        ("sweep: {parallel.ppp: [1]}\n", "parallel.ppp = 1: is not a field of SimGPU; fix: did you mean"),
        ("sweep: {variants: [1]}\n", "is no field that can be swept"),
        ("sweep: {name: [a, b]}\n", "is no field that can be swept"),
        ("sweep: {cluster.topology.gpus: [1]}\n", "cannot be set: cluster.topology is dgx-a100, which has no fields"),
        ("sweep: {cluster.gpus: [4], cluster: [{topology: dgx-a100}]}\n", "is swept, and cluster.gpus is set by"),
        (
            "sweep: {parallel.tp: [1]}\nvariants: [{name: a, set: {parallel.tp: 2}}]\n",
            "is swept, and parallel.tp is set by",
        ),
        ("zero: {overlap_comm: true}\nsweep: {parallel.tp: [1]}\n", "zero.overlap_comm = true: has no effect"),
    ],
)
def test_a_bad_grid_is_answered_in_one_message_with_its_line(write, add, words):
    path = write(add=add)
    found = issues(path)
    hits = [text for text in found if words in text]
    assert len(hits) == 1, found
    assert hits[0].startswith(f"{path}:1" if add else f"{path}: ")  # the lines that are added follow ten others


def test_everything_wrong_is_said_at_once(write):
    found = issues(write(add="sweep: {parallel.pp: [1, two, 0], parallel.ppp: [1], training.precision: [bf17]}\n"))
    assert len(found) == 4


def test_set_beside_a_swept_field(write):
    (text,) = issues(write(add="sweep: {parallel.pp: [1]}\n"), overrides=["parallel.pp=2"])
    assert "is swept, and parallel.pp is set by --set as well; fix: leave one of the two out" in text


def test_too_large(write):
    values = list(range(1, 200))
    assert LARGEST_GRID < 199 * 199
    (text,) = issues(write(add=f"sweep: {{parallel.pp: {values}, training.sequence_length: {values}}}\n"))
    assert "has 39,601 points; allowed: up to 20,000" in text


def test_null_leaves_a_field_out(write):
    grid = load_grid(write(add="sweep: {parallel.tp: [null, 4]}\n"))
    assert [point.data["parallel"] for point in grid.points] == [{}, {"tp": 4}]


def test_an_option_that_some_point_uses_is_in_use(write):
    grid = load_grid(write(add="zero: {overlap_comm: true}\nsweep: {parallel.data_parallel: [ddp, zero2]}\n"))
    assert len(grid.points) == 2


def test_set_changes_every_point(write):
    grid = load_grid(write(add="sweep: {parallel.pp: [1, 2]}\n"), overrides=["cluster.gpus=4"])
    assert [point.data["cluster"]["gpus"] for point in grid.points] == [4, 4]


def test_the_bundled_grid():
    grid = load_grid("sweep_parallelism")
    assert [axis.field for axis in grid.axes] == ["parallel.tp", "parallel.pp", "training.micro_batch_size"]
    assert len(grid.points) == 24
