"""Errors of the service."""

from botocore.exceptions import ClientError


class BookingError(Exception):
    """Its code is for the caller, its text for people."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def code_of(error: ClientError) -> str:
    return error.response["Error"]["Code"]


class on_failed_condition:
    """Turns a failed condition into an error of the service."""

    def __init__(self, code, text):
        self.code, self.text = code, text

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        if isinstance(error, ClientError) and code_of(error) == "ConditionalCheckFailedException":
            raise BookingError(self.code, self.text) from None
        return False


def failed_actions(error: ClientError):
    """Returns the positions of the actions whose conditions failed in a cancelled transaction."""
    reasons = error.response.get("CancellationReasons", [])
    return [i for i, reason in enumerate(reasons) if reason["Code"] == "ConditionalCheckFailed"]
