"""One reader a format: bytes of a file to records and failures."""
