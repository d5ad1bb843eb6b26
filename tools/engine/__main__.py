"""`python -m tools.engine build|status`: builds the engine for the tests, or says where its pieces are."""

import argparse
import sys

from tools.engine.build import BuildFailed, build
from tools.engine.installed import EngineMissing, cache, engine


def main(arguments: list[str] | None = None) -> int:
    """0: the engine is ready; 1: it is not."""
    parser = argparse.ArgumentParser(prog="python -m tools.engine", description=__doc__)
    parser.add_argument("command", choices=["build", "status"])
    command = parser.parse_args(arguments).command
    try:
        if command == "build":
            build()
        for name, path in vars(engine()).items():
            print(f"{name:20} {path}")
    except (BuildFailed, EngineMissing) as error:
        print(f"{error}\ncache folder: {cache()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
