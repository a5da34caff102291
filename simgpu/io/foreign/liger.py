"""Liger's kernels in place of a model's own, its loss among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger

_CONFIG: Final = "liger_kernel_config"
_NOTE: Final = "Liger kernels are simulated as the fused kernels of the preset"


def with_liger(ledger: Ledger, software: Any, at: str = "") -> dict[str, Any]:
    """Put Liger's loss into a choice of kernels, unless its configuration says otherwise.

    Parameters
    ----------
    ledger : Ledger
    software : str, dict or None
        A preset, or fields of ``software``.
    at : str
        In front of ``liger_kernel_config``.

    Returns
    -------
    dict
        Fields of ``software``.

    References
    ----------
    linkedin/Liger-Kernel src/liger_kernel/transformers/monkey_patch.py: ``fused_linear_cross_entropy`` is on for
    language models, ``cross_entropy`` off.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> with_liger(Ledger(Document(source="x", data={})), "compile")
    {'preset': 'compile', 'cross_entropy': 'fused_linear'}
    """
    chosen = software_fields(software)
    own = f"{at}{_CONFIG}"
    ledger.unfold(own)
    linear, loss = (ledger.flag(f"{own}.{name}") for name in ("fused_linear_cross_entropy", "cross_entropy"))
    others = ledger.raw(own)
    left = [name for name, value in others.items() if value is False] if isinstance(others, Mapping) else []
    if set(left) - {"fused_linear_cross_entropy", "cross_entropy"}:
        ledger.note(f"{own}: the kernels that it leaves out are simulated as the preset's too")
    ledger.idle(f"{own}*")
    if linear is not False:
        ledger.note(f"{_NOTE}, and its loss in chunks of tokens")
        return {**chosen, "cross_entropy": "fused_linear"}
    ledger.note(_NOTE)
    return {**chosen, "cross_entropy": "fused"} if loss else chosen


def software_fields(software: Any) -> dict[str, Any]:
    """Return a choice of kernels as fields of ``software``, whichever way it is written.

    Examples
    --------
    >>> software_fields("te"), software_fields({"optimizer": "fused"}), software_fields(None)
    ({'preset': 'te'}, {'optimizer': 'fused'}, {})
    """
    return dict(software) if isinstance(software, Mapping) else {"preset": software} if software else {}
