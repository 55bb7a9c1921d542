"""`python -m hunkwise doctor [TRAINER]`: what hunkwise has registered with a trainer, and what it has not."""

from __future__ import annotations

import argparse
import sys

from . import _doctor


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; 0 where all is well, 1 where something is not registered."""
    parser = argparse.ArgumentParser(prog="python -m hunkwise", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser("doctor", help="what is registered with a trainer, and what is not")
    doctor.add_argument("trainer", nargs="?", choices=sorted(_doctor.TRAINERS), help="all that are known by default")
    given = parser.parse_args(arguments)
    findings = _doctor.examine(given.trainer)
    for finding in findings:
        print(finding)
    return 0 if all(finding.is_well for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
