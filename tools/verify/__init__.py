"""The decision: truth in float64, the original as yardstick, the cases a candidate has to pass."""
