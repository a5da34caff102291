"""The JSON Schema of scenario files, for editors. ``python -m simgpu.config.schema`` writes it anew."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import simgpu
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.io.json_file import to_json
from simgpu.io.text_file import write_text

# yaml-language-server knows this dialect in every version; nothing below needs a later one but `$defs`,
# which it resolves like any other reference.
DIALECT: Final = "http://json-schema.org/draft-07/schema#"
SCHEMA_PATH: Final = Path("schema") / "scenario.schema.json"
_EXAMPLES: Final = {"model": ["llama-2-7b", "path/to/config.json"], "topology": ["dgx-a100", "dgx-h100"]}


def scenario_schema() -> dict[str, Any]:
    """Return the schema of scenario files.

    Returns
    -------
    dict

    Examples
    --------
    >>> schema = scenario_schema()
    >>> schema["$defs"]["PerturbBlock"]["properties"]["seed"]["description"]
    'Seed of the jitter; 0 when left out.'
    """
    schema = ScenarioBlock.model_json_schema(by_alias=True)
    for name, examples in _EXAMPLES.items():
        home = schema if name == "model" else schema["$defs"]["ClusterBlock"]
        home["properties"][name]["examples"] = examples
    cleaned = _clean(schema, is_property_map=False)
    return {"$schema": DIALECT, "title": "SimGPU scenario", **{k: v for k, v in cleaned.items() if k != "title"}}


def schema_text() -> str:
    r"""Return the schema as the file holds it.

    Returns
    -------
    str

    Examples
    --------
    >>> schema_text().startswith('{\n  "$schema"')
    True
    """
    return to_json(scenario_schema())


def _clean(node: Any, *, is_property_map: bool) -> Any:
    """Drop titles (field names again) and null (an empty value is refused), and flatten what remains."""
    if isinstance(node, list):
        return [_clean(item, is_property_map=False) for item in node]
    if not isinstance(node, dict):
        return copy.copy(node)
    result = {
        key: _clean(value, is_property_map=not is_property_map and key in ("properties", "$defs"))
        for key, value in node.items()
        if is_property_map or (key != "title" and not (key == "default" and value is None))
    }
    if is_property_map:
        return result
    if "anyOf" in result:
        options = [option for option in result.pop("anyOf") if option != {"type": "null"}]
        if len(options) == 1 and not ("$ref" in options[0] and "description" in result):
            result = {**options[0], **result}
        elif len(options) == 1:
            result["allOf"] = options  # draft-07 ignores what stands beside $ref
        else:
            result["anyOf"] = options
    elif "$ref" in result and len(result) > 1:
        result["allOf"] = [{"$ref": result.pop("$ref")}]
    if isinstance(result.get("description"), str):
        result["description"] = " ".join(result["description"].split())
    return result


def main() -> None:
    """Write the schema to its place in the repository."""
    write_text(Path(simgpu.__file__).parent.parent / SCHEMA_PATH, schema_text())


if __name__ == "__main__":
    main()
