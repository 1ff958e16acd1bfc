"""The `millrace` command and the jobs behind `make`."""
