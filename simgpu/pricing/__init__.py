"""What ops and layers cost."""

from simgpu.pricing.cases import lower_case, one_op, op_prices, op_table, ops

__all__ = ["lower_case", "one_op", "op_prices", "op_table", "ops"]
