"""The schema that editors use."""

import json
from pathlib import Path

import pytest

import simgpu
from simgpu.config.schema import SCHEMA_PATH, scenario_schema, schema_text

ROOT = Path(simgpu.__file__).parent.parent


def test_the_schema_file_is_current():
    assert (ROOT / SCHEMA_PATH).read_text(encoding="utf-8") == schema_text(), "run python -m simgpu.config.schema"


def walk(node):
    yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(inner)


def test_it_keeps_to_what_all_versions_of_the_dialect_share():
    schema = scenario_schema()
    nodes = [node for node in walk(schema) if isinstance(node, dict)]
    assert not any(key in node for node in nodes for key in ("prefixItems", "unevaluatedProperties", "discriminator"))
    assert not any("$ref" in node and len(node) > 1 for node in nodes)  # draft-07 ignores what stands beside $ref
    references = {node["$ref"] for node in nodes if "$ref" in node}
    assert all(reference.removeprefix("#/$defs/") in schema["$defs"] for reference in references)
    assert json.loads(schema_text()) == schema


def test_every_field_says_what_it_is():
    schema = scenario_schema()
    blocks = [schema, *(block for block in schema["$defs"].values() if "properties" in block)]
    for block in blocks:
        assert block["additionalProperties"] is False
        for name, entry in block["properties"].items():
            target = schema["$defs"][entry["$ref"].rsplit("/", 1)[1]] if "$ref" in entry else entry
            assert target.get("description"), name


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_bundled_scenarios_point_editors_at_it_and_say_what_they_teach(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# yaml-language-server: $schema=../schema/scenario.schema.json"
    assert (path.parent / "../schema/scenario.schema.json").resolve().is_file()
    header = [line for line in lines if line.startswith("#")]
    assert any("What it teaches" in line for line in header)
