"""`python -m motet`."""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()] and not __file__.startswith(os.path.join(os.getcwd(), "")):
    del sys.path[0]  # -m put it there: a `random.py` in the folder of somebody's data is not ours to run

from motet.cli import main

sys.exit(main())
