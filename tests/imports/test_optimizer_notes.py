"""Optimizers that are priced as others: what is not priced is said."""

from __future__ import annotations

import pytest

from simgpu.io.foreign.document import Document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.optimizer_names import optimizer


@pytest.mark.parametrize("name", ["muon", "Muon", "dist_muon", "muon_adamw"])
def test_muons_products_are_not_priced(name: str) -> None:
    ledger = Ledger(Document(source="a.yaml", data={}))
    assert optimizer(name, ledger, "optim")["training.optimizer"] == "sgd"
    (note,) = ledger.notes
    assert f"optim {name}: is priced as sgd with momentum. Not priced: the products of its five Newton-Schulz" in note
    assert "AdamW" in note
