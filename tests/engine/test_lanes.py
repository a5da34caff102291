"""Blocks that many ranks play in columns must go as if every instruction of theirs were played."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simgpu.engine import blocks, pace, play, ready_blocks
from simgpu.fold import fold
from simgpu.lower.emitter import Emitter
from simgpu.lower.perturbation import Perturbation, perturbed
from simgpu.pricing import lower_case, op_prices
from simgpu.program import Disturbance
from simgpu.workload.host_costs import HostCosts
from tests.engine.test_blocks import PIPELINE, program_of, same, written_out
from tests.programs import all_reduce, cost, program, reduce_key, role, works
from tests.strategies import case_of, scenarios

DURATIONS_NS = (900, 4000, 15_000, 40_000)
RUNS = {count: works(*DURATIONS_NS[:count]).kernels for count in (1, 2, 3)} | {4: works(40_000).kernels}
SIZES = (16, 32, 64)

actions = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.sampled_from(sorted(RUNS))),
        st.tuples(st.sampled_from(["tp", "cp"]), st.sampled_from(SIZES)),
        st.tuples(st.just("wait"), st.just(0)),
        st.tuples(st.just("alloc"), st.integers(1, 1000)),
    ),
    min_size=2,
    max_size=14,
)
hosts = st.sampled_from([None, (100, 100), (3000, 500), (20_000, 2000)])


def write(emitter, does, microbatch, joined=True):
    """Write a pass: kernels, and collectives that are waited for later or at its end."""
    emitter.kernels("begin", RUNS[1], phase="forward", microbatch=microbatch)
    first = replace(all_reduce(SIZES[0], "tp"), microbatch=microbatch)
    under_way = {"tp": emitter.transfer("tp", first, after=emitter.record())}
    for what, value in does:
        if what == "run":
            emitter.kernels("run", RUNS[value], phase="forward", microbatch=microbatch)
        elif what in ("tp", "cp"):
            inside = replace(all_reduce(value, what), microbatch=microbatch)
            under_way[what] = emitter.transfer(what, inside, after=emitter.record())
        elif what == "alloc":
            emitter.alloc(value, "activations")
            emitter.free(value, "activations")
        else:
            emitter.wait(under_way["tp"])
    for event in under_way.values() if joined else ():
        emitter.wait(event)


def replicas(does, host, jitter, beside, joined=True):
    """Two groups of three ranks, four passes; a reduction of all replicas beside the third one."""
    emitter = Emitter(
        host=None if host is None else HostCosts(forward_op_ns=host[0], collective_ns=host[0], launch_ns=host[1])
    )
    for microbatch in range(4):
        emitter.repeat("pass", partial(write, emitter, does, microbatch, joined), microbatch=microbatch)
        if microbatch == 1 and beside:
            emitter.transfer("dp", all_reduce(8), after=emitter.record())
            emitter.transfer("dp", all_reduce(8), after=emitter.record())
        emitter.kernels("between", RUNS[2], phase="forward", microbatch=microbatch)
    streams = emitter.finished()
    members = (0, 1, 2), (3, 4, 5)
    groups = [
        *(("tp", own) for own in members),
        *(("cp", own) for own in members),
        *(("dp", (rank, rank + 3)) for rank in range(3)),
    ]
    prices = {
        (group, reduce_key(size)): replace(cost(700, size * 300, [(group, 5)]), disturbance=1, spinning=0)
        for group in range(4)
        for size in SIZES
    }
    prices |= {
        (4 + rank, reduce_key(8)): replace(cost(1000, 30_000, [(9, 5)]), disturbance=2, spinning=0) for rank in range(3)
    }
    subject = program([role(streams)], [0] * 6, groups, prices, links=[10**9] * 10)
    kernels = {kernel for run in RUNS.values() for kernel in run}
    subject = replace(
        subject,
        roles=(replace(subject.roles[0], streams=streams),),
        disturbances=tuple(Disturbance(ctas=ctas, hbm_bytes_per_s=0) for ctas in (4, 8, 24)),
        disturbed_ns={kernel: tuple(int(kernel.duration_ns * by) for by in (1.05, 1.3, 1.7)) for kernel in kernels},
    )
    return perturbed(subject, Perturbation(jitter=jitter, seed=3))


@pytest.fixture
def batches(monkeypatch):
    """How many groups played together, each time."""
    found = []
    in_columns = ready_blocks.in_columns

    def noted(gatherings):
        outcomes = in_columns(gatherings)
        found.append(sum(outcome is not None for outcome in outcomes))
        return outcomes

    monkeypatch.setattr(ready_blocks, "in_columns", noted)
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(actions, hosts, st.sampled_from([0.02, 0.4]), st.booleans())
def test_columns_change_nothing(does, host, jitter, beside):
    subject = replicas(does, host, jitter, beside)
    same(play(subject), play(written_out(subject)))


@pytest.fixture(scope="module")
def in_time():
    """Nobody is told of the end of a block when the clock has passed it."""
    commit = blocks.RankBlocks.commit

    def checked(self, gate, step, begin_ns, outcome):
        assert begin_ns + outcome.end_ns >= self.events.loop.env.now
        commit(self, gate, step, begin_ns, outcome)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blocks.RankBlocks, "commit", checked)
        yield


PERTURBATIONS = (Perturbation(jitter=0.05, seed=1), Perturbation(jitter=0.5, seed=2), Perturbation(slow={1: 1.4}))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios(), st.sampled_from(PERTURBATIONS), st.sampled_from(["nccl", "free"]))
def test_perturbed_ranks_go_as_if_every_instruction_were_played(in_time, scenario, perturbation, network):
    """On a free network all transfers are of known length, and classes that are a whole group meet others elsewhere."""
    case = case_of(scenario | ({"network": "free"} if network == "free" else {}))
    whole = perturbed(lower_case(case, op_prices(case)), perturbation)
    for subject in (whole, fold(whole)):
        same(play(subject), play(written_out(subject)))


def test_a_rank_beside_a_transfer_and_an_idle_stream_ends_when_that_transfer_does(in_time):
    """A pipeline of V shape with an offloaded optimizer: messages slow passes down, other streams wait for streams."""
    small = {"layers": 4, "hidden": 256, "heads": 8, "kv_heads": 8, "ffn": 512, "vocab": 1024}
    case = case_of(
        {
            "model": small,
            "cluster": {"topology": "dgx-a100"},
            "training": {
                "sequence_length": 128,
                "micro_batch_size": 1,
                "gradient_accumulation": 8,
                "precision": "fp16",
            },
            "parallel": {"pp": 2, "dp": 4, "data_parallel": "zero2", "schedule": "zbv", "overlap_p2p": True},
            "software": {"host_issue_ns": 0},
            "zero": {"offload_optimizer": {"device": "cpu", "pin_memory": True}},
        }
    )
    subject = perturbed(lower_case(case, op_prices(case)), Perturbation(jitter=0.5, seed=2))
    same(play(subject), play(written_out(subject)))


def test_groups_that_do_the_same_play_together(batches):
    subject = replicas([("run", 2), ("wait", 0), ("run", 4)], (100, 100), 0.02, beside=False)
    play(subject)
    assert max(batches) == 2


def test_a_block_that_compute_leaves_before_its_transfer_ends_is_none(batches):
    subject = replicas([("run", 2)], None, 0.4, beside=False, joined=False)
    same(play(subject), play(written_out(subject)))
    assert not batches


def test_classes_that_are_a_group_by_themselves_meet_others_in_another_one():
    """Both ranks of a ring are one class, for which no other class has to wait there."""
    case = case_of(
        {
            "model": {"layers": 4, "hidden": 256, "heads": 8, "kv_heads": 8, "ffn": 512, "vocab": 1024},
            "cluster": {"topology": "dgx-a100"},
            "training": {"sequence_length": 256, "micro_batch_size": 1},
            "parallel": {"tp": 2, "cp": 2, "pp": 2, "cp_comm_type": "all_gather"},
            "software": {"host_issue_ns": 0},
            "network": "free",
        }
    )
    slow = {0: 1.2, 1: 1.2, 4: 1.2, 5: 1.2, 2: 2.0, 3: 2.0}
    whole = perturbed(lower_case(case, op_prices(case)), Perturbation(slow=slow))
    folded = play(fold(whole))
    same(folded, play(written_out(fold(whole))))
    assert folded.step_ends_ns == play(whole).step_ends_ns


def test_a_jittered_pipeline_is_played_in_columns(batches):
    """Few are left to be played by themselves: those beside traffic whose end nobody knows."""
    timeline = play(program_of(PIPELINE | {"perturb": {"jitter": 0.05, "seed": 2}}))
    groups = 4
    assert sum(batches) > groups * 2 * 6 * len(timeline.step_ends_ns) / 2


def test_a_pass_of_more_launches_than_a_queue_holds(batches):
    """The CPU waits for what it has issued of the same pass."""
    deep = {"model": PIPELINE["model"] | {"layers": 120}, "training": PIPELINE["training"]}
    one = {"cluster": {"topology": "dgx-h100"}, "parallel": {"tp": 8}, "software": {"host_issue_ns": 500}}
    subject = program_of(deep | one | {"perturb": {"jitter": 0.1, "seed": 1}})
    same(play(subject), play(written_out(subject)))
    assert batches


def test_a_kernel_that_begins_before_a_transfer_and_ends_after_it():
    """10 us alone, 20 while it spins, 40 while it moves: 2 us alone, 4 spinning, 8 moving and 4 alone again."""
    one = np.array([[100]])
    beside = pace.Resident(one + 2000, one + 6000, one + 14_000, 0, 1, one)
    end = pace.paced((10_000, 20_000, 40_000), np.array([[10_000]]), one, beside)
    assert end.tolist() == [[100 + 2000 + 4000 + 8000 + 4000]]
