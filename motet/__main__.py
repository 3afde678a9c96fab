"""`python -m motet`."""

import sys

from motet.cli import main

sys.exit(main())
