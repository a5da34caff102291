"""Pipelines of models whose stages are unlike: encoder-decoders, convolutions, stages without layers."""

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.lower.lowering import lower
from simgpu.program import Collective, Recv, Send
from simgpu.workload.bundled import bundled_model

LLAMA = {"layers": 4, "hidden": 256, "heads": 8, "ffn": 512, "vocab": 1024}


def case_of(model, *, pp, dp=1, tp=1, micro=2, accumulation=4, training=None, software=None, **parallel):
    known = isinstance(model, str) and bundled_model(model).fixed_sequence
    scenario = {
        "name": "x",
        "model": model,
        "cluster": {"topology": "dgx-a100", "gpus": pp * dp * tp},
        "training": {"micro_batch_size": micro, "gradient_accumulation": accumulation}
        | ({} if known else {"sequence_length": 128})
        | (training or {}),
        "parallel": {"pp": pp, "tp": tp, **parallel},
    }
    (case,) = load_cases(scenario | ({"software": software} if software else {}))
    return case


def program_of(*args, **wanted):
    case = case_of(*args, **wanted)
    return lower(case.cluster, case.model, case.training, case.strategy, software=case.software)


def sent_bytes(role, kind=Send):
    """Sizes of a role's messages to each neighbour, forward and backward."""
    return {
        (item.phase, item.peer): item.bytes
        for stream in role.streams.values()
        for item in stream
        if isinstance(item, kind)
    }


def collectives(role, communicator):
    return [
        item
        for stream in role.streams.values()
        for item in stream
        if isinstance(item, Collective) and item.communicator == communicator
    ]


def stored(role):
    return role.resident_bytes["weights"]


class TestEncoderDecoder:
    """Megatron's encoder-decoder pipeline: decoder stages hand on the encoder's output too."""

    SOURCE, TARGET = 2 * 128 * 768 * 2, 2 * 96 * 768 * 2  # bytes: sequences x tokens x width x bf16

    def roles(self, **wanted):
        return program_of("t5-base", pp=4, training={"target_length": 96}, **wanted).roles

    def test_messages(self):
        both, roles = self.SOURCE + self.TARGET, self.roles()
        assert sent_bytes(roles[0]) == {("forward", 1): self.SOURCE}
        assert sent_bytes(roles[1]) == {("forward", 2): self.SOURCE, ("backward", 0): self.SOURCE}
        assert sent_bytes(roles[2]) == {("forward", 3): both, ("backward", 1): self.SOURCE}
        assert sent_bytes(roles[3]) == {("backward", 2): both}
        assert sent_bytes(roles[2], Recv) == {("forward", 1): self.SOURCE, ("backward", 3): both}

    def test_every_stage_keeps_the_encoders_output_and_makes_its_own_bias(self):
        units = [item.unit for item in self.roles()[3].streams["compute"] if getattr(item, "unit", "")]
        assert units[0] == "entry of decoder block 6"

    def test_weights_are_the_models_and_the_copies_of_shared_tables(self):
        """Table on ranks 0, 2 and 3; tables of biases on all four instead of two."""
        copies = 2 * 32128 * 768 + 2 * 32 * 12
        whole = bundled_model("t5-base").parameters
        assert sum(map(stored, self.roles())) == 2 * (whole + copies)

    def test_gradients_of_the_shared_table_are_summed_over_its_holders(self):
        program = program_of("t5-base", pp=4)
        assert [group.members for group in program.groups if group.communicator == "embedding"] == [(0, 2, 3)]
        assert [len(collectives(role, "embedding")) for role in program.roles] == [1, 0, 1, 1]
        two = program_of("t5-base", pp=2)
        assert [group.members for group in two.groups if group.communicator == "embedding"] == [(0, 1)]
        assert stored(two.roles[0]) + stored(two.roles[1]) == 2 * (bundled_model("t5-base").parameters + 32128 * 768)

    def test_it_pays(self):
        one = simulate(case_of("t5-large", pp=1, accumulation=8))
        two = simulate(case_of("t5-large", pp=2, accumulation=8))
        assert 0.5 < two.step_time_ns / one.step_time_ns < 0.75


class TestResidualNetwork:
    """Stages of convolutions, one after another (GPipe, torch.distributed.pipelining)."""

    def test_messages_have_the_size_of_the_maps_that_cross(self):
        """ResNet-50 in blocks: 3 of 56 x 56 x 256, 4 of 28 x 28 x 512, 6 of 14 x 14 x 1024, 3 of 7 x 7 x 2048."""
        roles = program_of("resnet-50", pp=4, layers_per_stage=[3, 4, 6, 3]).roles
        maps = [2 * 2 * side**2 * channels for side, channels in ((56, 256), (28, 512), (14, 1024))]
        assert [sent_bytes(role).get(("forward", rank + 1)) for rank, role in enumerate(roles)] == [*maps, None]
        assert [sent_bytes(role).get(("backward", rank - 1)) for rank, role in enumerate(roles)] == [None, *maps]

    @pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zbh1", "interleaved_1f1b", "zbv", "dualpipev"])
    def test_any_schedule_plays(self, schedule):
        report = simulate(case_of("resnet-50", pp=2, schedule=schedule, accumulation=4))
        for rank in report.ranks:
            assert sum(rank.breakdown_ns.values()) == report.step_time_ns

    def test_synchronised_batch_norms_exchange_within_their_stage(self):
        program = program_of("resnet-50", pp=2, dp=2, training={"sync_batch_norm": True})
        assert [len(collectives(role, "dp")) > 0 for role in program.roles] == [True, True]
        assert stored(program.roles[0]) != stored(program.roles[1])


class TestStagesWithoutLayers:
    """A stage that holds just the embedding, or just the head."""

    def test_the_embedding_alone(self):
        roles = program_of(LLAMA, pp=4, layers_per_stage=[0, 2, 2, 0]).roles
        table, stream = 1024 * 256, 2 * 128 * 256 * 2
        assert [stored(roles[0]), stored(roles[3])] == [2 * table, 2 * (table + 256)]
        assert {size for role in roles for size in sent_bytes(role).values()} == {stream}

    def test_an_empty_stage_hands_on_what_it_receives(self):
        case = case_of(LLAMA, pp=4, layers_per_stage=[2, 0, 2, 0])
        report = simulate(case)
        empty = next(rank for rank in report.ranks if rank.rank == 1)
        assert sum(empty.breakdown_ns.values()) == report.step_time_ns
        assert empty.breakdown_ns.get("compute.gemm", 0) == 0

    @pytest.mark.parametrize("data_parallel", ["ddp", "zero1", "zero3", "fsdp", "distributed_optimizer"])
    @pytest.mark.parametrize("schedule", ["1f1b", "zbh2"])
    def test_they_go_with_data_parallelism(self, data_parallel, schedule):
        wanted = {"layers_per_stage": [0, 4], "data_parallel": data_parallel, "schedule": schedule}
        report = simulate(case_of(LLAMA, pp=2, dp=2, **wanted))
        assert report.timeline.steady

    def test_a_balanced_split_is_faster_than_an_even_one_where_the_head_is_heavy(self):
        wide = {**LLAMA, "vocab": 128_000}
        even, apart = (
            simulate(case_of(wide, pp=2, accumulation=16, layers_per_stage=split, software={"host_issue_ns": 0}))
            for split in ([2, 2], [4, 0])
        )
        assert apart.step_time_ns < even.step_time_ns
