"""Blocks before, behind and beside which streams that take part in them go on with transfers of their own."""

from dataclasses import replace
from functools import partial

import pytest

from simgpu.engine import host, play
from simgpu.lower.emitter import Emitter
from simgpu.program import Disturbance, Kernel
from simgpu.workload.host_costs import HostCosts
from tests.engine.test_blocks import same, written_out
from tests.programs import all_reduce, cost, program, reduce_key, role, works

GROUPS = [("tp", (0,)), ("cp", (0,)), ("dp", (0,))]
KERNELS = works(50).kernels


def finished(emitter, prices, links=()):
    streams = emitter.finished()
    subject = program([role(streams)], [0], GROUPS, prices, links=list(links))
    return replace(subject, roles=(replace(subject.roles[0], streams=streams),))


def moves(nanoseconds):
    return cost(5, nanoseconds, [(0, nanoseconds)])


def wait_for(emitter, group, size, microbatch):
    done = emitter.transfer(group, replace(all_reduce(size, group), microbatch=microbatch), after=emitter.record())
    emitter.wait(done)


@pytest.mark.parametrize("before_ns", [20, 60, 100, 200])
def test_a_transfer_before_a_block_is_still_on_the_link_of_another_in_it(before_ns):
    emitter = Emitter()

    def body(microbatch):
        emitter.kernels("k", KERNELS, phase="forward", microbatch=microbatch)
        wait_for(emitter, "cp", 3, microbatch)
        wait_for(emitter, "tp", 1, microbatch)

    for microbatch in range(4):
        if microbatch == 2:
            emitter.transfer("tp", all_reduce(2, "tp"), after=emitter.record())
        emitter.repeat("b", partial(body, microbatch), microbatch=microbatch)
    prices = {(0, reduce_key(1)): moves(20), (0, reduce_key(2)): moves(before_ns), (1, reduce_key(3)): moves(30)}
    subject = finished(emitter, prices, [10**9])
    same(play(subject), play(written_out(subject)))


def test_a_stream_goes_on_behind_its_part_of_a_block_while_another_is_in_it():
    emitter = Emitter()

    def body(microbatch):
        emitter.kernels("k", KERNELS, phase="forward", microbatch=microbatch)
        wait_for(emitter, "tp", 1, microbatch)
        wait_for(emitter, "cp", 3, microbatch)

    for microbatch in range(4):
        emitter.repeat("b", partial(body, microbatch), microbatch=microbatch)
        if microbatch == 2:
            emitter.transfer("tp", all_reduce(2, "tp"), after=None)
    prices = {(0, reduce_key(1)): moves(20), (0, reduce_key(2)): moves(30), (1, reduce_key(3)): moves(30)}
    subject = finished(emitter, prices, [10**9])
    same(play(subject), play(written_out(subject)))


def test_it_counts_which_stream_comes_late_to_a_block():
    emitter = Emitter()

    def body(microbatch):
        emitter.kernels("k", KERNELS, phase="forward", microbatch=microbatch)
        begin = emitter.record()
        tp = emitter.transfer("tp", replace(all_reduce(1, "tp"), microbatch=microbatch), after=begin)
        cp = emitter.transfer("cp", replace(all_reduce(3, "cp"), microbatch=microbatch), after=begin)
        emitter.wait(tp)
        emitter.kernels("k", KERNELS, phase="forward", microbatch=microbatch)
        emitter.wait(cp)

    for microbatch in range(4):
        for at, group, size in ((1, "tp", 2), (2, "cp", 4)):
            if microbatch == at:
                emitter.transfer(group, all_reduce(size, group), after=emitter.record())
        emitter.repeat("b", partial(body, microbatch), microbatch=microbatch)
    sizes = {(0, 1): 20, (0, 2): 200, (1, 3): 40, (1, 4): 200}
    subject = finished(emitter, {(group, reduce_key(size)): cost(took, 0) for (group, size), took in sizes.items()})
    same(play(subject), play(written_out(subject)))


@pytest.mark.parametrize("depth", [8, 12, 16, 1024])
def test_a_stream_that_waits_for_what_the_cpu_issues_behind_an_end_in_a_block(monkeypatch, depth):
    """The CPU is ahead of a block beside a reduction, and held by one of its ends when the next one is asked for."""
    monkeypatch.setattr(host, "QUEUE_DEPTH", depth)
    emitter = Emitter(host=HostCosts(forward_op_ns=5, backward_op_ns=1, collective_ns=5, launch_ns=3))
    kernels = [
        Kernel(name=str(took), op_class="gemm", duration_ns=took, launches=often)
        for took, often in ((100, 3), (60, 3), (60, 1))
    ]

    def body():
        for kernel in kernels:
            emitter.kernels(kernel.name, (kernel,), phase="forward", microbatch=0)

    emitter.transfer("dp", all_reduce(5), after=None)
    emitter.repeat("b", body, microbatch=0)
    reduction = replace(cost(0, 90, [(0, 45)]), disturbance=0)
    subject = finished(emitter, {(2, reduce_key(5)): reduction, (0, reduce_key(1)): cost(0, 40, [(0, 40)])}, [10**9])
    subject = replace(
        subject,
        disturbances=(Disturbance(ctas=8, hbm_bytes_per_s=0),),
        disturbed_ns={kernel: (kernel.duration_ns + 20,) for kernel in kernels},
    )
    same(play(subject), play(written_out(subject)))
