import pytest
from hypothesis import settings

# A timed assertion in disguise: a busy machine is no fault of the code.
settings.register_profile("triplane", deadline=None)
settings.load_profile("triplane")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")
