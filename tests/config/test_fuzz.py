"""Whatever a scenario holds, it is either understood or refused with issues; nothing else ever escapes."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.config import load_scenario
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.errors import ScenarioError
from simgpu.io.yaml_file import parse_yaml

BASE = {
    "model": "gpt2",
    "cluster": {"topology": "dgx-a100", "gpus": 4},
    "training": {"sequence_length": 64, "micro_batch_size": 1, "global_batch_size": 16},
    "parallel": {"tp": 1, "pp": 1},
}
PATHS = [
    *((name,) for name in [*ScenarioBlock.model_fields, "odd", ""]),
    *((block, name) for block in BASE if block != "model" for name in [*BASE[block], "odd"]),
    ("cluster", "fabric"), ("cluster", "fabric", "kind"), ("cluster", "nodes"), ("parallel", "order"),
    ("parallel", "layers_per_stage"), ("parallel", "dp"), ("parallel", "schedule"), ("training", "precision"),
    ("training", "gradient_accumulation"), ("model", "layers"), ("model", "stages"), ("model", "forward_ns"),
    ("zero", "reduce_bucket_size"), ("ddp", "bucket_cap_mb"), ("network", "nccl"), ("software", "preset"),
]  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 70), st.floats(), st.text(max_size=8),
    st.sampled_from(["gpt2", "none", "zero3", "fsdp", "fp16", "gpipe", "2", "3 ms", "1e400", "1e29", "5M"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["tp", "stages", "forward_ns", "name", "set", "layers", "x"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def loads_or_refuses(data, overrides=()):
    scenario, issues = None, ()
    try:
        scenario = load_scenario(data, overrides=overrides)
    except ScenarioError as error:
        issues = error.issues
    assert (scenario is None) == bool(issues)
    assert all(issue.problem for issue in issues)
    for case in scenario.cases if scenario else ():
        assert case.strategy.world_size == case.cluster.world_size


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(PATHS), VALUES), min_size=1, max_size=3))
def test_a_scenario_with_anything_in_any_field(changes):
    data = copy.deepcopy(BASE)
    for path, value in changes:
        here = data
        for part in path[:-1]:
            if not isinstance(here.get(part), dict):
                here[part] = {}
            here = here[part]
        here[path[-1]] = value
    loads_or_refuses(data)


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from([".".join(path) for path in PATHS]), VALUES, max_size=3))
def test_a_variant_that_sets_anything(changes):
    loads_or_refuses({**BASE, "variants": [{"name": "a", "set": changes}, {"name": "b"}]})


@settings(max_examples=60)
@given(st.sampled_from([".".join(path) for path in PATHS]), st.text(max_size=12))
def test_an_override_with_any_text(path, text):
    loads_or_refuses(BASE, [f"{path}={text}", text])


@settings(max_examples=150)
@given(st.text(alphabet=st.sampled_from("ab:- \n\t[]{},'\"&*!|>#%@?1.~<"), max_size=40) | st.text(max_size=20))
def test_any_text_is_yaml_or_refused(text):
    data, issues = None, ()
    try:
        data = parse_yaml(text, "x").data
    except ScenarioError as error:
        issues = error.issues
    assert isinstance(data, dict) == (not issues)
    assert len(issues) <= 1
