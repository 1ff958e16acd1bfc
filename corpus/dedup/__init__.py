"""Removal of repeated documents."""
