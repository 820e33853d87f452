"""Each test has a fork of a stator, of which each worker of pytest-xdist has one."""

import pytest

from booking.tables import TABLES, TIME_TO_LIVE

pytest_plugins = ["stator_db.pytest_plugin"]


@pytest.fixture(scope="session")
def tables(stator):
    for table in TABLES:
        stator.send("CreateTable", **table)
    for setting in TIME_TO_LIVE:
        stator.send("UpdateTimeToLive", **setting)


@pytest.fixture
def database(tables, stator_fork):
    """The arguments of boto3.client."""
    return stator_fork.arguments()


@pytest.fixture
def expire(stator):
    """Deletes what has expired: it advances the clock beyond the next search."""
    return lambda deleted: stator.send("Stator.AdvanceClock", Seconds=2)
