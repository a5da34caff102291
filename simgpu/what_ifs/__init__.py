"""What-ifs: the run again, with a faster link, without a kind of communication, without the bubble."""

from __future__ import annotations

from simgpu.what_ifs.change import Change, parse_changes
from simgpu.what_ifs.gains import applicable_changes, largest_gains, what_if

__all__ = ["Change", "applicable_changes", "largest_gains", "parse_changes", "what_if"]
