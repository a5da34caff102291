"""What all blocks of a scenario file share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Block(BaseModel):
    """A mapping in a scenario file: unknown fields are refused, and each field's docstring is its help in editors.

    Examples
    --------
    >>> class Shelf(Block):
    ...     books: int
    >>> Shelf.model_validate({"books": 3}).books
    3
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True)
