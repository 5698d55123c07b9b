"""The command `leafpress`, also as `python -m leafpress`."""

from __future__ import annotations

import signal
import sys

from ._leafpress import main as _main


def main(*, as_keywords: bool = False) -> int:
    """Runs the command of this process's arguments, and gives its exit status.

    `as_keywords`: advice names keywords of this package's functions, and not flags.
    """
    # Signals do what they do to a command, until it sets handlers of its own. Python only notes
    # SIGINT, and would look at it after the work; where it is ignored, as in the background of a
    # script, it stays so. SIGXFSZ is ignored by Python itself.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    again = [sys.executable, "-m", "leafpress"]
    return _main(["leafpress", *sys.argv[1:]], again, as_keywords)


if __name__ == "__main__":
    sys.exit(main())
