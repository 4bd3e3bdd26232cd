"""`python -m belated.cli`: the same as `belated`."""
# PYTHON_ARGCOMPLETE_OK

import sys

from belated.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
