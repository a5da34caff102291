from tests.cli.conftest import simgpu

__all__ = ["simgpu"]
