"""Raw text to clean, deduplicated, tokenised, indexed datasets (pyarrow and Spark; never torch)."""
