"""One tally for all generated inputs, and its line in the report."""

import pytest
from fuzz_judge import Tally

TALLY = Tally()


@pytest.fixture(scope="session")
def tally() -> Tally:
    return TALLY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TALLY.counts:
        terminalreporter.write_line(TALLY.line())
