"""Tests as a user of the wheel writes them."""

import os
import subprocess
import sys
from datetime import datetime, timedelta

import pytest
import stator_db

ORDERS = {
    "TableName": "Orders",
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
}


@pytest.fixture(scope="session")
def stator_base(stator):
    stator.send("CreateTable", **ORDERS)
    stator.send("PutItem", TableName="Orders", Item={"id": {"S": "base"}})


def ids(database):
    return sorted(i["id"]["S"] for i in database.send("Scan", TableName="Orders")["Items"])


@pytest.mark.parametrize("n", range(3))
def test_tests_do_not_see_each_other(stator_fork, n):
    stator_fork.send("PutItem", TableName="Orders", Item={"id": {"S": str(n)}})
    assert ids(stator_fork) == sorted(["base", str(n)])


def test_base_is_not_changed(stator, stator_fork):
    stator_fork.send("DeleteItem", TableName="Orders", Key={"id": {"S": "base"}})
    assert ids(stator_fork) == []
    assert ids(stator) == ["base"]
    assert os.environ["AWS_ENDPOINT_URL_DYNAMODB"] == stator_fork.endpoint_url


def test_fork_of_a_fork(stator_fork):
    with stator_fork.fork() as fork:
        fork.send("DeleteItem", TableName="Orders", Key={"id": {"S": "base"}})
        assert ids(fork) == []
    assert ids(stator_fork) == ["base"]


@pytest.mark.parametrize(
    ("endpoint", "of", "want"),
    [
        ("http://127.0.0.1:8000/fork/ONE/", "one", "http://127.0.0.1:8000"),
        ("https://example.org/db/fork/one", "one", "https://example.org/db"),
        ("http://One.localhost:8000", "one", "http://localhost:8000"),
        ("http://db.localhost:8000/", None, "http://db.localhost:8000"),
    ],
)
def test_server_of_a_fork(endpoint, of, want):
    assert stator_db.Fork(stator_db.Database(endpoint), "new", of).endpoint_url == want + "/fork/new"


def test_fork_that_the_server_has_dropped(stator):
    with stator.fork() as fork:
        stator.send("Stator.DeleteFork", ForkName=fork.name)


def test_forks_are_kept_while_a_debugger_waits(stator, stator_fork):
    made = next(f for f in stator.send("Stator.ListForks")["Forks"] if f["ForkName"] == stator_fork.name)
    created, expires = (datetime.fromisoformat(made[name].replace("Z", "+00:00")) for name in ("Created", "Expires"))
    assert expires - created > timedelta(hours=1)


def test_server_without_forks():
    for args in (["--forks", "0"], ["--forks=0"]):
        with stator_db.start("--in-memory", *args) as server:
            with pytest.raises(stator_db.StatorError) as error:
                server.fork()
            assert error.value.code == "ValidationException"


def test_log_is_not_kept():
    class Log:
        sizes, left = [], 3

        def read(self, size=-1):
            self.sizes.append(size)
            self.left -= 1
            return "x" * 100 if self.left >= 0 else ""

    log = Log()
    stator_db._discard(log)
    assert len(log.sizes) == 4 and min(log.sizes) > 0


def test_errors_have_their_code(stator_fork):
    with pytest.raises(stator_db.StatorError) as error:
        stator_fork.send("Scan", TableName="Nothing")
    assert error.value.code == "ResourceNotFoundException"


def test_boto3(stator_fork):
    boto3 = pytest.importorskip("boto3")
    client = boto3.client("dynamodb", **stator_fork.arguments())
    client.put_item(TableName="Orders", Item={"id": {"S": "boto3"}})
    assert ids(stator_fork) == ["base", "boto3"]


def test_command():
    text = subprocess.run([sys.executable, "-m", "stator_db", "version"], capture_output=True, text=True, check=True).stdout
    assert text.startswith("stator ")


def test_failed_start_says_why():
    with pytest.raises(RuntimeError, match="unknown flag"):
        stator_db.start("--no-such-flag")
