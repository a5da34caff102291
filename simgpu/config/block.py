"""What all blocks of a scenario file share."""

from __future__ import annotations

import ast
import inspect
import sys
from itertools import pairwise

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Block(BaseModel):
    """A mapping in a scenario file: unknown fields are refused, and each field's docstring is its help in editors.

    Examples
    --------
    >>> class Shelf(Block):
    ...     books: int
    >>> Shelf.model_validate({"books": 3}).books
    3
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(core_schema)
        fields = handler.resolve_ref_schema(found)["properties"]
        for name, text in field_help(cls).items():
            field = fields[cls.model_fields[name].alias or name]
            if handler.resolve_ref_schema(field).get("description") != text:  # the block that it names may say it too
                field["description"] = text
        return found


def field_help(block: type[Block]) -> dict[str, str]:
    """Return the docstrings of a block's fields.

    They are read from the source when somebody asks: pydantic's ``use_attribute_docstrings`` reads those of all blocks
    at every start.

    Parameters
    ----------
    block : type of Block

    Returns
    -------
    dict of str to str
        By field, those without left out; nothing for a class that no module defines.

    Examples
    --------
    >>> from simgpu.config.environment_block import PerturbBlock
    >>> field_help(PerturbBlock)["seed"]
    'Seed of the jitter; 0 when left out.'
    """
    try:
        module = ast.parse(inspect.getsource(sys.modules[block.__module__]))
    except OSError:  # installed without its source
        return {}
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for found in module.body
        if isinstance(found, ast.ClassDef) and found.name == block.__name__
        for field, below in pairwise(found.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
