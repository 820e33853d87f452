"""Runs the stator binary of this package."""

import os
import subprocess
import sys

from . import binary


def main():
    try:
        path = binary()
    except FileNotFoundError as error:
        sys.exit(f"stator: {error}")
    command = [path, *sys.argv[1:]]
    if os.name == "nt":
        sys.exit(subprocess.call(command))
    os.execv(path, command)


if __name__ == "__main__":
    main()
