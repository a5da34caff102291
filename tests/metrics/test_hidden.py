"""How much of a kind of transfer is hidden, by hand."""

import pytest

from simgpu.engine import play
from simgpu.metrics.hidden import hidden_shares
from simgpu.program import Record, Wait
from tests.programs import all_reduce, cost, program, reduce_key, role, work


@pytest.mark.parametrize(("beside_ns", "share"), [(0, 0.0), (4_000, 0.4), (10_000, 1.0), (50_000, 1.0)])
def test_as_much_as_kernels_run_beside_it(beside_ns, share):
    """A reduction of 10 us starts when the first op ends; what runs beside it hides as much of it."""
    beside = [work(beside_ns)] if beside_ns else []
    streams = {
        "compute": [work(5_000), Record(0), *beside, Wait(1)],
        "dp": [Wait(0), all_reduce(64), Record(1)],
    }
    groups, transfers = [("dp", (0, 1))], {(0, reduce_key(64)): cost(0, 10_000)}
    timeline = play(program([role(streams)], [0, 0], groups, transfers))
    assert hidden_shares(timeline) == {
        (rank, "dp", "all_reduce", 64): pytest.approx(share) for rank in (0, 1)
    }  # fmt: skip
