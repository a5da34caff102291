"""Colour refinement and its check against neighbourhoods that are counted one by one."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simgpu.fold.refinement import is_equitable, refine


@st.composite
def graphs(draw):
    """Vertices with colours, and labelled edges between some of them."""
    vertices = draw(st.integers(1, 8))
    vertex = st.integers(0, vertices - 1)
    edges = draw(st.lists(st.tuples(vertex, vertex, st.integers(0, 2)), max_size=16))
    colours = draw(st.lists(st.integers(0, 2), min_size=vertices, max_size=vertices))
    numbered = np.unique(colours, return_inverse=True)[1]
    return numbered.astype(np.int64), *np.array(edges, np.int64).reshape(-1, 3).T


def around(colour, source, target, label):
    """What each vertex sees, with its colour."""
    seen = [Counter() for _ in colour]
    for one, other, kind in zip(source.tolist(), target.tolist(), label.tolist(), strict=True):
        seen[one][kind, int(colour[other])] += 1
    return [(int(own), frozenset(each.items())) for own, each in zip(colour, seen, strict=True)]


@given(graphs())
def test_a_partition_is_equitable_when_equal_colours_see_the_same(graph):
    found = around(*graph)
    assert is_equitable(*graph) == (len(set(found)) == len(set(graph[0].tolist())))


@given(graphs())
def test_refinement_is_the_coarsest_equitable_partition(graph):
    """As rounds of naming every vertex by what it sees find it."""
    colour, *edges = graph
    names = colour.tolist()
    while True:
        seen = around(np.array(names), *edges)
        numbers = {each: number for number, each in enumerate(dict.fromkeys(seen))}
        following = [numbers[each] for each in seen]
        if len(set(following)) == len(set(names)):
            break
        names = following
    found = refine(colour, *edges)
    assert is_equitable(found, *edges)
    assert found.tolist() == [list(dict.fromkeys(names)).index(name) for name in names]
