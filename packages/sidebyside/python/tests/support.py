"""What tests expect."""

from contextlib import contextmanager

import pytest
from botocore.exceptions import ClientError

from booking import BookingError


@contextmanager
def refused(code, match=None):
    """Expects an error of the service."""
    with pytest.raises(BookingError, match=match) as error:
        yield
    assert error.value.code == code


@contextmanager
def invalid(match=None):
    """Expects that the database refuses a request."""
    with pytest.raises(ClientError, match=match) as error:
        yield
    assert error.value.response["Error"]["Code"] == "ValidationException"
