"""What the tests use. The database comes from the plugin in the first line, the only one that differs."""

import os

import pytest

from booking import Desk

pytest_plugins = ["setup_" + os.environ.get("DATABASE", "stator").replace("-", "_")]  # the setup line


@pytest.fixture
def desk(database):
    """The service on a database of its own."""
    return Desk(**database)


@pytest.fixture
def rooms(desk):
    return desk.rooms


@pytest.fixture
def guests(desk):
    return desk.guests


@pytest.fixture
def bookings(desk):
    return desk.bookings
