"""The command `leafpress`, also as `python -m leafpress`."""

from __future__ import annotations

import signal
import sys

from ._leafpress import main as _main


def main() -> int:
    """Runs the command of this process's arguments, and gives its exit status."""
    # Signals do what they do to a command, until it sets handlers of its own. Python only notes
    # them, and would look at them after the work.
    for name in ("SIGINT", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    return _main(["leafpress", *sys.argv[1:]], [sys.executable, "-m", "leafpress"])


if __name__ == "__main__":
    sys.exit(main())
