"""``python -m dprounds`` is ``dprounds``."""

import sys

from dprounds.cli import main

sys.exit(main())
