import os

import pytest
from hypothesis import settings

# A deadline is a timed assertion in disguise: a busy machine is no fault of the code. In CI the same inputs are drawn
# in every run, so that a change is judged by what it changed; everywhere else each run draws new ones.
settings.register_profile("triplane", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("triplane")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")
