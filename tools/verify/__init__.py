"""The decision: truth in float64, the reference as yardstick, the cases a candidate has to pass."""
