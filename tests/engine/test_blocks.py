"""Blocks that are taken as a whole must go as if every instruction of theirs were played."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from simgpu.config import load_cases
from simgpu.engine import blocks, play
from simgpu.fold import fold
from simgpu.lower.emitter import Emitter
from simgpu.lower.perturbation import perturbed
from simgpu.pricing import lower_case, op_prices
from simgpu.script import Script
from simgpu.workload.software import HostCosts
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
    for name in ("rank", "time_ns", "delta_bytes"):
        assert np.array_equal(getattr(timeline.memory, name), getattr(other.memory, name)), name
    for found, wanted in zip(moved(timeline), moved(other), strict=True):
        assert found == wanted
    assert timeline.kernel_ends_ns == other.kernel_ends_ns
    assert timeline.kernel_holds_ns == other.kernel_holds_ns
    assert timeline.cpu_begins_ns == other.cpu_begins_ns
    assert (timeline.step_ends_ns, timeline.step) == (other.step_ends_ns, other.step)


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


def test_a_cpu_that_is_late_by_another_time_makes_another_block(taken):
    """Between passes the CPU launches 0 to 3 reductions of 40 us, of which the GPU's next pass knows nothing."""
    emitter = Emitter(host=HostCosts(forward_op_ns=100, collective_ns=40_000, launch_ns=100))
    kernels = works(5000, 7000).kernels

    def write(microbatch):
        emitter.kernels("pass", kernels, phase="forward", microbatch=microbatch)

    for microbatch, launches in enumerate((1, 0, 3, 1, 2, 3)):
        for _ in range(launches):
            emitter.transfer("dp", all_reduce(8), after=None)
        emitter.repeat("pass", partial(write, microbatch), microbatch=microbatch)
    subject = program([role(emitter.finished())], [0], [("dp", (0,))], {(0, reduce_key(8)): cost(0, 0)})
    subject = replace(subject, roles=(replace(subject.roles[0], streams=emitter.finished()),))
    same(play(subject), play(written_out(subject)))
    assert taken


def test_a_slow_gpu_and_its_group_go_by_themselves(taken):
    subject = program_of(PIPELINE | {"perturb": {"slow_ranks": {5: 1.3}}})
    group = subject.groups[subject.ranks[5].groups["tp"]]
    same(play(subject), play(written_out(subject)))
    assert taken
    assert not set(group.members) & set(taken)


def test_a_role_is_written_out_as_it_would_have_been_written():
    (case,) = load_cases(PIPELINE)
    roles = lower_case(case, op_prices(case)).roles
    scripts = [stream for one in roles for stream in one.streams.values() if isinstance(stream, Script)]
    assert scripts
    for script in scripts:
        one_by_one = [script[position] for position in range(len(script))]
        assert tuple(one_by_one) == tuple(script) == script[:]
