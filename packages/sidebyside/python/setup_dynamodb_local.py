"""Each test makes the tables in one DynamoDB Local, under an access key of its own."""

import os
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import pytest

from booking.tables import TABLES, TIME_TO_LIVE


def pytest_configure(config):
    """Starts DynamoDB Local in the process that starts the workers."""
    if hasattr(config, "workerinput"):
        return
    [jar] = Path(os.environ["DYNAMODB_LOCAL"]).glob("lib/*/DynamoDBLocal.jar")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    config.dynamodb_local = subprocess.Popen(
        ["java", f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}", "-jar", str(jar),
         "-inMemory", "-disableTelemetry", "-port", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    os.environ["DYNAMODB_LOCAL_URL"] = url  # for the workers
    for _ in range(600):
        try:
            urllib.request.urlopen(url).close()
            return
        except urllib.error.HTTPError:
            return  # it answers, with an error
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("DynamoDB Local does not answer")


def pytest_unconfigure(config):
    if hasattr(config, "dynamodb_local"):
        config.dynamodb_local.terminate()
        config.dynamodb_local.wait()


@pytest.fixture(scope="session")
def session():
    return boto3.session.Session()


@pytest.fixture
def database(session):
    """The arguments of boto3.client."""
    arguments = {
        "endpoint_url": os.environ["DYNAMODB_LOCAL_URL"],
        "region_name": "us-east-1",
        "aws_access_key_id": "test" + secrets.token_hex(8),
        "aws_secret_access_key": "local",
    }
    client = session.client("dynamodb", **arguments)
    for table in TABLES:
        client.create_table(**table)
    for setting in TIME_TO_LIVE:
        client.update_time_to_live(**setting)
    yield arguments
    for table in TABLES:
        client.delete_table(TableName=table["TableName"])


@pytest.fixture
def expire():
    """Waits until what has expired is deleted, which DynamoDB Local does from time to time."""

    def wait(deleted):
        for _ in range(1000):
            if deleted():
                return
            time.sleep(0.05)
        raise TimeoutError("nothing was deleted in 50 seconds")

    return wait
