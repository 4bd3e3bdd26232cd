"""`python -m belated.cli`: the same as `belated`."""

import sys

from belated.cli.main import main

sys.exit(main())
