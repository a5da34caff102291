"""Blocks that are taken as a whole must go as if every instruction of theirs were played."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from simgpu.config import load_cases
from simgpu.engine import blocks, gathering, play
from simgpu.fold import fold
from simgpu.lower.emitter import Emitter
from simgpu.lower.perturbation import perturbed
from simgpu.pricing import lower_case, op_prices
from simgpu.program import Disturbance
from simgpu.script import Script
from simgpu.workload.host_costs import HostCosts
from tests.programs import all_reduce, cost, program, reduce_key, role, works
from tests.strategies import case_of, scenarios

PIPELINE = {
    "model": {"layers": 8, "hidden": 512, "heads": 8, "kv_heads": 8, "ffn": 1024, "vocab": 2048},
    "cluster": {"topology": "dgx-h100", "nodes": 4, "gpus": 32},
    "training": {"sequence_length": 256, "micro_batch_size": 1, "gradient_accumulation": 6, "precision": "bf16"},
    "parallel": {"tp": 8, "pp": 2, "dp": 2, "data_parallel": "distributed_optimizer", "sequence_parallel": True},
    "distributed_optimizer": {"overlap_grad_reduce": True, "overlap_param_gather": True},
}


def program_of(scenario):
    (case,) = load_cases(scenario)
    return perturbed(lower_case(case, op_prices(case)), case.perturbation)


def written_out(whole):
    """Return the same Program with every instruction in its place, so that there are no blocks."""
    roles = tuple(
        replace(one, streams={name: tuple(stream) for name, stream in one.streams.items()}) for one in whole.roles
    )
    return replace(whole, roles=roles)


def same(timeline, other):
    for name in ("rank", "stream", "instruction", "step", "ready_ns", "issued_ns", "start_ns", "end_ns", "cause"):
        assert np.array_equal(getattr(timeline.spans, name), getattr(other.spans, name)), name
    assert memory_of(timeline) == memory_of(other)
    for found, wanted in zip(moved(timeline), moved(other), strict=True):
        assert found == wanted
    assert timeline.kernel_ends_ns == other.kernel_ends_ns
    assert timeline.kernel_holds_ns == other.kernel_holds_ns
    assert timeline.cpu_begins_ns == other.cpu_begins_ns
    assert (timeline.step_ends_ns, timeline.step) == (other.step_ends_ns, other.step)


def memory_of(timeline):
    """Changes of one instant are in any order."""
    memory = timeline.memory
    return sorted(zip(memory.rank.tolist(), memory.time_ns.tolist(), memory.delta_bytes.tolist(), strict=True))


def moved(timeline):
    flows = timeline.flows
    columns = (flows.start_ns, flows.end_ns, flows.rate_per_ns, flows.last, flows.limit)
    rows = zip(flows.transfer.tolist(), *(column.tolist() for column in columns), strict=True)
    return sorted((repr(timeline.transfers[transfer]), *rest) for transfer, *rest in rows)


@pytest.fixture
def taken(monkeypatch):
    """How many blocks were taken as a whole."""
    found = []
    commit = blocks.RankBlocks.commit

    def counted(self, *args):
        found.append(self.rank)
        commit(self, *args)

    monkeypatch.setattr(blocks.RankBlocks, "commit", counted)
    return found


@pytest.fixture
def played(monkeypatch):
    """The ranks that played a block by themselves, each time."""
    found = []
    play_together = gathering.play_together

    def noted(lanes, gone):
        found.append(lanes)
        play_together(lanes, gone)

    monkeypatch.setattr(gathering, "play_together", noted)
    return found


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_blocks_change_nothing(scenario):
    case = case_of(scenario)
    whole = lower_case(case, op_prices(case))
    for subject in (whole, fold(whole)):
        same(play(subject), play(written_out(subject)))


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("host", [{}, {"host_issue_ns": 0}, {"host_issue_ns": "20 us"}, {"cuda_graphs": True}])
def test_most_of_a_pipeline_is_taken_in_blocks(taken, host, folded):
    whole = program_of(PIPELINE | {"software": host})
    subject = fold(whole) if folded else whole
    timeline = play(subject)
    same(timeline, play(written_out(subject)))
    passes = 2 * 6 * len(timeline.step_ends_ns) * len(subject.ranks)
    assert len(taken) > passes / 2


@pytest.mark.parametrize("issue", [500, 3000, "20 us"])
def test_how_far_the_cpu_is_ahead_tells_blocks_apart(taken, issue):
    """One node without a pipeline: nothing stops the CPU but its queue and its own speed."""
    one = {"cluster": {"topology": "dgx-h100"}, "parallel": {"tp": 8}, "software": {"host_issue_ns": issue}}
    subject = fold(program_of({key: PIPELINE[key] for key in ("model", "training")} | one))
    same(play(subject), play(written_out(subject)))
    assert taken


KERNELS = works(5000, 7000).kernels


def write_pass(emitter, microbatch):
    emitter.kernels("pass", KERNELS, phase="forward", microbatch=microbatch)
    inside = replace(all_reduce(16, "tp"), microbatch=microbatch)
    emitter.wait(emitter.transfer("tp", inside, after=emitter.record()))


def reductions_between_passes(launches):
    """Passes with a collective of their own; before each the CPU launches so many reductions of 40 us beside it."""
    emitter = Emitter(host=HostCosts(forward_op_ns=100, collective_ns=40_000, launch_ns=100))
    for microbatch, count in enumerate(launches):
        for _ in range(count):
            emitter.transfer("dp", all_reduce(8), after=emitter.record())
        emitter.repeat("pass", partial(write_pass, emitter, microbatch), microbatch=microbatch)
    prices = {(0, reduce_key(8)): cost(0, 0), (1, reduce_key(16)): cost(3000, 0)}
    subject = program([role(emitter.finished())], [0], [("dp", (0,)), ("tp", (0,))], prices)
    return replace(subject, roles=(replace(subject.roles[0], streams=emitter.finished()),))


def test_a_cpu_that_is_late_by_another_time_makes_another_block(monkeypatch):
    """The GPU's next pass knows nothing of the reductions but how late the CPU comes to launch it."""
    outcomes = {}
    commit = blocks.RankBlocks.commit

    def noted(self, gate, step, begin_ns, outcome):
        outcomes[id(outcome)] = outcome.tracks["compute"].end_ns
        commit(self, gate, step, begin_ns, outcome)

    monkeypatch.setattr(blocks.RankBlocks, "commit", noted)
    subject = reductions_between_passes((1, 0, 3, 1, 2, 3))
    same(play(subject), play(written_out(subject)))
    assert len(set(outcomes.values())) > 2


@pytest.mark.parametrize("busy_ns", [4999, 5000, 5001, 12_000, 20_000])
def test_a_stream_that_comes_late_to_a_block_waits_in_it_all_the_same(taken, busy_ns):
    """A pass waits for the first collective before it; the second one beside it ends before, at or after 12 us."""
    emitter = Emitter()
    for microbatch in range(4):
        if microbatch % 2:
            emitter.wait(emitter.transfer("tp", all_reduce(8, "tp"), after=emitter.record()))
            emitter.transfer("tp", all_reduce(32, "tp"), after=None)
        emitter.repeat("pass", partial(write_pass, emitter, microbatch), microbatch=microbatch)
    prices = {reduce_key(8): cost(100, 0), reduce_key(16): cost(3000, 0), reduce_key(32): cost(busy_ns, 0)}
    streams = emitter.finished()
    subject = program([role(streams)], [0], [("tp", (0,))], {(0, key): price for key, price in prices.items()})
    subject = replace(subject, roles=(replace(subject.roles[0], streams=streams),))
    same(play(subject), play(written_out(subject)))
    assert taken


def beside_traffic(traffic_ns, shared_ns):
    """Two ranks reduce beside ten passes of 15 us; two others, which reduce too, share their link from the fifth on."""

    def streams(reduced, at):
        emitter = Emitter()
        for microbatch in range(10):
            if microbatch == at:
                emitter.transfer("dp", all_reduce(reduced), after=emitter.record())
            emitter.repeat("pass", partial(write_pass, emitter, microbatch), microbatch=microbatch)
        return emitter.finished()

    both = streams(8, 1), streams(24, 5)
    groups = [("dp", (0, 1)), ("dp", (2, 3)), *(("tp", (rank,)) for rank in range(4))]
    long, short = cost(1000, traffic_ns, [(0, traffic_ns)]), cost(0, shared_ns, [(0, shared_ns)])
    inside = {(group, reduce_key(16)): replace(cost(3000, 0), disturbance=0, spinning=0) for group in range(2, 6)}
    prices = {
        (0, reduce_key(8)): replace(long, disturbance=1, spinning=0),
        (1, reduce_key(24)): replace(short, disturbance=1, spinning=0),
        **inside,
    }
    subject = program([role(both[0]), role(both[1])], [0, 0, 1, 1], groups, prices, links=[10**9])
    return replace(
        subject,
        roles=tuple(replace(one, streams=own) for one, own in zip(subject.roles, both, strict=True)),
        disturbances=(Disturbance(ctas=8, hbm_bytes_per_s=0), Disturbance(ctas=24, hbm_bytes_per_s=0)),
        disturbed_ns={KERNELS[0]: (5100, 6000), KERNELS[1]: (7300, 9000)},
    )


@pytest.mark.parametrize("shared_ns", [1, 20_000, 90_000])
@pytest.mark.parametrize("traffic_ns", [1, 14_000, 33_000, 70_000, 200_000])
def test_passes_beside_traffic_are_blocks(monkeypatch, traffic_ns, shared_ns):
    """How fast it moves is not known before it ends: a pass is played when it is, and its end has not come yet."""
    slowed = []
    commit = blocks.RankBlocks.commit

    def noted(self, gate, step, begin_ns, outcome):
        slowed.append(bool(outcome.kernels))
        commit(self, gate, step, begin_ns, outcome)

    monkeypatch.setattr(blocks.RankBlocks, "commit", noted)
    subject = beside_traffic(traffic_ns, shared_ns)
    timeline = play(subject)
    same(timeline, play(written_out(subject)))
    assert len(slowed) >= 4 * 10 * len(timeline.step_ends_ns)
    assert any(slowed)
    assert not all(slowed)


def test_layers_that_do_the_same_are_played_once(played, taken):
    """Eight layers in two stages, forward and backward, on 32 ranks: what differs between them is their names."""
    play(program_of(PIPELINE | {"software": {"host_issue_ns": 0}}))
    assert 0 < len(played) < len(taken) / 50


def test_a_pass_of_more_launches_than_a_queue_holds_is_played_once_in_the_steady_state(played, taken):
    """The CPU issues the end of a pass when its begin has ended: it is ahead by as much in each, and no more."""
    deep = {
        "model": PIPELINE["model"] | {"layers": 120},
        "training": PIPELINE["training"] | {"gradient_accumulation": 24},
    }
    one = {"cluster": {"topology": "dgx-h100"}, "parallel": {"tp": 8}, "software": {"host_issue_ns": 500}}
    play(fold(program_of(deep | one)))
    assert 0 < len(played) < len(taken) / 4


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("host", [{"host_issue_ns": 0}, {"host_issue_ns": "20 us"}])
@pytest.mark.parametrize("perturb", [{"slow_ranks": {5: 1.3, 20: 1.1}}, {"jitter": 0.05, "seed": 2}])
def test_ranks_with_times_of_their_own_take_blocks_with_their_group(taken, perturb, host, folded):
    """They come to it and leave it at other times than the others, and meet them in its collectives."""
    whole = program_of(PIPELINE | {"perturb": perturb, "software": host})
    subject = fold(whole) if folded else whole
    timeline = play(subject)
    same(timeline, play(written_out(subject)))
    passes = 2 * 6 * len(timeline.step_ends_ns) * len(subject.ranks)
    assert len(taken) > passes / 2
    assert set(taken) == set(range(len(subject.ranks)))


def test_a_role_is_written_out_as_it_would_have_been_written():
    (case,) = load_cases(PIPELINE)
    roles = lower_case(case, op_prices(case)).roles
    scripts = [stream for one in roles for stream in one.streams.values() if isinstance(stream, Script)]
    assert scripts
    for script in scripts:
        one_by_one = [script[position] for position in range(len(script))]
        assert tuple(one_by_one) == tuple(script) == script[:]
