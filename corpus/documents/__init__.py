"""Per-document stages: Arrow batch in, Arrow batch out, no Spark in them."""
