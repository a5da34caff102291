"""A name that stands for a block takes fields beside it, on the command line and in variants."""

from simgpu.config import load_cases


def test_fields_beside_a_name(write):
    path = write(add="software: flash\nvariants: [{name: a, set: {model.layers: 4}}, {name: b, set: {}}]\n")
    few, all_of_them = load_cases(path, overrides=["software.cross_entropy=fused"])
    assert (few.model.layers, all_of_them.model.layers) == (4, 32)
    assert few.model.hidden == all_of_them.model.hidden
    assert few.software.fused_cross_entropy
    assert few.software.name == "flash"
