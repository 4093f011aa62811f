"""The command `splitstep`, and `python -m splitstep`."""

import os
import signal
import sys
import time
from types import FrameType

INTERRUPTED = 130  # the exit code
PATIENCE = 2.0  # seconds in which a second Ctrl-C is of the same mind


class Interrupts:
    """Ctrl-C: the first interrupts, others soon after it change nothing, and a later one ends the process at once."""

    def __init__(self) -> None:
        self.first: float | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.first is None:
            self.first = time.monotonic()
            raise KeyboardInterrupt
        if time.monotonic() - self.first > PATIENCE:
            os._exit(INTERRUPTED)


def main() -> int:
    """Run a verb. Ctrl-C during the imports ends with the same line and exit code as later."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, Interrupts())
    try:
        from .cli import main as run

        return run()
    except KeyboardInterrupt:
        print("Error: interrupted.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
