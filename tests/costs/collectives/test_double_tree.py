"""NCCL's double binary tree."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.costs.collectives.double_tree import parents


def depth(tree, node):
    steps = 0
    while tree[node] >= 0:
        node, steps = tree[node], steps + 1
        assert steps < len(tree), "a cycle"
    return steps


@given(st.integers(2, 300))
def test_both_trees_span_all_nodes_with_two_children_at_most(nodes):
    for tree in parents(nodes):
        assert sum(up < 0 for up in tree) == 1
        assert max(depth(tree, node) for node in range(nodes)) <= (nodes - 1).bit_length()
        assert max(Counter(up for up in tree if up >= 0).values()) <= 2


@given(st.integers(1, 150).map(lambda half: 2 * half))
def test_a_node_inside_one_tree_is_a_leaf_of_the_other(nodes):
    first, second = parents(nodes)
    assert not {up for up in first if up > 0 and first[up] >= 0} & {up for up in second if second[up] >= 0}


@given(st.integers(2, 300))
def test_no_node_sends_more_than_two_payloads(nodes):
    # Half a payload up to the parent and half down to each child, in either tree.
    for node in range(nodes):
        halves = sum((tree[node] >= 0) + tree.count(node) for tree in parents(nodes))
        assert halves <= 4


def test_eight_nodes_as_in_nccls_source():
    #    0-------------4
    #           2             6
    #        1     3       5     7
    assert parents(8)[0] == (-1, 2, 4, 2, 0, 6, 4, 6)


@pytest.mark.parametrize(
    ("node", "children", "up"),
    [(6, {5, 7}, 4), (0, {4}, -1), (4, {2, 6}, 0)],
)
def test_children(node, children, up):
    tree = parents(8)[0]
    assert {child for child, parent in enumerate(tree) if parent == node} == children
    assert tree[node] == up
