"""`python -m splitstep`: the same as the command `splitstep`."""

import sys

from .cli import main

sys.exit(main())
