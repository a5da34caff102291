"""The command line, and rows whose assertions are told in full."""

import pytest

from tests.cli.conftest import simgpu

__all__ = ["simgpu"]

pytest.register_assert_rewrite("tests.checks.tried", "tests.checks.peer_jobs", "tests.checks.peer_traces")
