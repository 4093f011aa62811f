"""The command `splitstep`, and `python -m splitstep`."""

import sys


def main() -> int:
    """Run a verb. Ctrl-C during the imports ends with the same line and exit code as later."""
    try:
        from .cli import main as run

        return run()
    except KeyboardInterrupt:
        print("Error: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
