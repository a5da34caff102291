"""The experts' own grid: the same ranks, the same pipeline and tensor neighbours, groups that divide the replicas."""

from hypothesis import assume, given
from hypothesis import strategies as st

from simgpu.parallel.mesh import Mesh
from simgpu.parallel.strategy import Strategy

small = st.sampled_from([1, 2, 4])


@given(small, small, small, small, st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_both_grids_are_of_the_same_ranks(tp, cp, pp, dp, ep, whole):
    strategy = Strategy(tp=tp, cp=cp, pp=pp, dp=dp, ep=ep, expert_tp=1 if whole else None)
    ranks = dp * cp * (tp if whole else 1)
    assume(ranks % ep == 0)
    own, experts = Mesh(degrees=strategy.mesh_degrees), Mesh(degrees=strategy.expert_mesh_degrees)
    assert own.size == experts.size == strategy.world_size
    assert own.along("pp") == experts.along("pp")
    assert whole or own.along("tp") == experts.along("etp")
    of = {rank: index for index, group in enumerate(experts.groups("ep")) for rank in group}
    for group in experts.groups("edp"):
        assert len({of[rank] for rank in group}) == len(group), "replicas of an expert are in different groups"
    together = {rank: index for index, group in enumerate(own.groups("dp", "cp", "tp")) for rank in group}
    for group in (*experts.groups("ep"), *experts.groups("edp")):
        assert len({together[rank] for rank in group}) == 1, "and all in one pipeline stage"


def test_an_expert_group_is_of_neighbours_unless_the_order_says_otherwise():
    near, far = Strategy(dp=8, ep=4), Strategy(dp=8, ep=4, order=("pp", "ep", "dp", "cp", "tp"))
    groups = [Mesh(degrees=strategy.expert_mesh_degrees).groups("ep")[0] for strategy in (near, far)]
    assert groups == [(0, 1, 2, 3), (0, 2, 4, 6)]
