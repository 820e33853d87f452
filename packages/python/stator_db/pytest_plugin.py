"""Fixtures for pytest.

``stator`` is a server for the whole run, and ``stator_fork`` a copy-on-write database of it for
each test. What all tests begin with is stored by a fixture of your own:

    @pytest.fixture(scope="session")
    def stator_base(stator):
        stator.send("CreateTable", TableName="Orders", …)

    def test_orders(stator_fork):
        orders = boto3.resource("dynamodb").Table("Orders")
"""

import pytest

from . import start


def pytest_addoption(parser):
    parser.addini("stator_args", "arguments of stator serve; --in-memory by default", type="args", default=[])


@pytest.fixture(scope="session")
def stator(request):
    """A server for the whole run."""
    with start(*request.config.getini("stator_args")) as server:
        yield server


@pytest.fixture(scope="session")
def stator_base(stator):
    """Stores what all tests begin with. Override it."""


@pytest.fixture
def stator_fork(stator, stator_base, monkeypatch):
    """A database for one test, which AWS SDKs find by the environment."""
    with stator.fork() as fork:
        for name, value in fork.environment().items():
            monkeypatch.setenv(name, value)
        yield fork
