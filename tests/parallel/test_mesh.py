"""Meshes: every rank in one group per axis, orders mean what they say."""

from hypothesis import given
from hypothesis import strategies as st

from simgpu.parallel.mesh import Mesh

degrees = st.permutations(["pp", "dp", "tp"]).flatmap(
    lambda order: st.tuples(*(st.integers(1, 4) for _ in order)).map(lambda d: dict(zip(order, d, strict=True)))
)


@given(degrees, st.sampled_from(["pp", "dp", "tp"]))
def test_groups_partition_the_ranks(shape, axis):
    mesh = Mesh(degrees=shape)
    groups = mesh.groups(axis)
    assert sorted(rank for group in groups for rank in group) == list(range(mesh.size))
    assert {len(group) for group in groups} == {shape[axis]}
    for group in groups:
        assert [mesh.along(axis)[rank] for rank in group] == list(range(shape[axis]))


def test_the_last_axis_is_fastest():
    assert Mesh(degrees={"pp": 2, "dp": 2, "tp": 2}).groups("tp")[0] == (0, 1)
    assert Mesh(degrees={"tp": 2, "dp": 2, "pp": 2}).groups("tp")[0] == (0, 4)
