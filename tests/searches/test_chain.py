"""The first pipeline of a candidate, played without contention, against closed forms and simulations."""

import pytest

from simgpu.hardware.gpu import gpu
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.roles import write_roles
from simgpu.parallel.strategy import Strategy
from simgpu.program import Collective, Compute, Record, Role, Wait
from simgpu.script import Block, Piece, Script, Use
from simgpu.searches.chain_play import least_period_ns
from simgpu.searches.chain_script import MEET, RECORD, WAIT, WORK, StreamSteps, chain_steps
from simgpu.workload.software import DEFAULT
from simgpu.workload.synthetic import SyntheticModel
from simgpu.workload.training import Training
from tests.searches.test_bound import bounds_of, check, space_of

FORWARD, BACKWARD, MESSAGE = 100, 200, 7


def period_ns(strategy, microbatches, message_ns=0):
    """Least period of a synthetic pipeline of equal stages."""
    stages = strategy.pp * strategy.virtual_stages
    model = SyntheticModel(name="s", stages=stages, forward_ns=(FORWARD,) * stages, backward_ns=(BACKWARD,) * stages)
    training = Training(sequence_length=1, micro_batch_size=1, accumulation=microbatches)
    step = write_roles(model, training, strategy, prices=KernelPrices(gpu("A100-SXM4-80GB")), software=DEFAULT)
    everyone = tuple(range(strategy.pp))
    return least_period_ns(chain_steps(step.roles, lambda place, item: message_ns, lambda place, name: everyone))


@pytest.mark.parametrize(("schedule", "virtual"), [("gpipe", 1), ("1f1b", 1), ("interleaved_1f1b", 2)])
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 2), (4, 8)])
def test_a_pipeline_of_equal_stages_takes_its_ideal_time(schedule, virtual, ranks, microbatches):
    """(m v + p - 1)(f + b), which the first rank works or waits in every step."""
    strategy = Strategy(pp=ranks, schedule=schedule, virtual_stages=virtual)
    assert period_ns(strategy, microbatches) == (microbatches * virtual + ranks - 1) * (FORWARD + BACKWARD)


def test_messages_of_the_first_and_last_microbatch_add_up():
    """One micro-batch through two stages: F + t + F + B + t + B."""
    assert period_ns(Strategy(pp=2), 1, MESSAGE) == 2 * (FORWARD + MESSAGE + BACKWARD)


def test_what_waits_for_ever_has_no_period():
    streams = [StreamSteps(0, "compute", [(WAIT, 1), (RECORD, 2)]), StreamSteps(0, "other", [(WAIT, 2), (RECORD, 1)])]
    assert least_period_ns(streams) == 0
    assert least_period_ns([StreamSteps(0, "compute", [(MEET, 0, 1, 2)])]) == 0


def test_the_slowest_of_two_ranks_that_meet_decides():
    def rank(place, work_ns):
        return StreamSteps(place, "compute", [(WORK, work_ns), (MEET, 0, 5, 2)])

    assert least_period_ns([rank(0, 30), rank(1, 70)]) == 75


def test_a_first_step_that_others_hold_up_is_no_period():
    """Rank 1 runs ahead of rank 0: 50 ns only once, of 10 ns a step."""
    ahead = StreamSteps(1, "compute", [(WORK, 10), (MEET, 0, 0, 2)])
    behind = StreamSteps(0, "compute", [(MEET, 0, 0, 2), (WORK, 50)])
    assert least_period_ns([ahead, behind]) <= 50


def test_a_block_lasts_as_long_as_by_itself():
    """A kernel beside an exchange of 40 ns, which the compute stream joins, used twice."""
    kernel = Compute(name="f", kernels=(), duration_ns=15, phase="forward", microbatch=0)
    exchange = Collective(name="x", communicator="tp", kind="all_reduce", bytes=8, microbatch=0)
    streams = {
        "compute": (Record(1), kernel, Wait(2), kernel, Record(3)),
        "tp": (Wait(1), exchange, Record(2)),
    }
    block = Block(streams=streams, events=3)
    uses = [Use(block=block, first={"compute": 5 * n, "tp": 3 * n}, event=3 * n, microbatch=n) for n in range(2)]
    scripts = {
        name: Script(name, tuple(Piece(len(items) * n, items, use) for n, use in enumerate(uses)))
        for name, items in streams.items()
    }
    scripts["dp"] = (Wait(6), exchange)  # behind the last record
    role = Role(
        name="r",
        stages=(0,),
        position={},
        streams=scripts,
        resident_bytes={},
        capacity_bytes=0,
        device="",
        host_bytes={},
    )
    found = {
        each.name: each.steps for each in chain_steps([role], lambda place, item: 40, lambda place, name: (place,))
    }
    assert found == {"compute": [(WORK, 110), (RECORD, 6)], "tp": [], "dp": [(WAIT, 6), (WORK, 40)]}


@pytest.mark.parametrize("kind", ["ddp", "zero1", "fsdp", "fsdp1", "distributed_optimizer"])
@pytest.mark.parametrize(("schedule", "virtual"), [("1f1b", 1), ("interleaved_1f1b", 2), ("zbv", 2)])
def test_data_parallel_pipelines_are_close_to_their_bound(kind, schedule, virtual):
    """Reductions and gathers at the step's ends are part of the bound; what is left is contention and the CPU."""
    model = {"layers": 8, "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 16384, "vocab": 8192}
    scenario = {
        "model": model,
        "cluster": {"topology": "dgx-a100", "gpus": 8},
        "training": {"sequence_length": 2048, "micro_batch_size": 2, "gradient_accumulation": 8, "recompute": "none"},
        "parallel": {"tp": 1, "pp": 4, "dp": 2, "data_parallel": kind, "schedule": schedule}
        | {"virtual_stages": virtual, "order": ["pp", "dp", "tp"]},
    }
    assert bounds_of(space_of(scenario))[-1][0] > 0.93 * check(scenario).step_time_ns
