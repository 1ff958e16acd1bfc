"""Indexed datasets to a trained, evaluated model (torch; never Spark)."""
