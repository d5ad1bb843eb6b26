"""What pyproject.toml cannot say: the installed policy pack names no virtual environment.

In the repository the pack runs in the program's environment, ../.venv. An installed one runs in the environment that it
was installed in, and a path out of a package leads nowhere.
"""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

VIRTUALENV = re.compile(r"(?m)^ +#[^\n]*\n(?: +#[^\n]*\n)* +virtualenv:[^\n]*\n|^ +virtualenv:[^\n]*\n")


class BuildPackage(build_py):
    """Copies the packages, and the pack's description without its virtual environment."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        built = Path(self.build_lib, "triplane", "policies", "PulumiPolicy.yaml")
        text, count = VIRTUALENV.subn("", built.read_text(encoding="utf-8"))
        if count != 1:
            raise SystemExit(f"{built}: expected one line virtualenv, found {count}")
        built.write_text(text, encoding="utf-8")


setup(cmdclass={"build_py": BuildPackage})
