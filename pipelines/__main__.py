"""`python -m pipelines` is the `millrace` command."""

import sys

from pipelines.cli import main

sys.exit(main())
