"""The command line: one word a question, one file a command.

Nothing of the library is loaded before a question is asked, so that ``dprounds --help`` answers at once.
"""

from dprounds.cli.entry import main

__all__ = ["main"]
