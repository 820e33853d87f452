"""boto3 and a server that throttles."""

import os
import unittest

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError
except ImportError:
    raise unittest.SkipTest("boto3 is not installed (Debian: apt install python3-boto3)")


def client(attempts):
    config = Config(retries={"total_max_attempts": attempts, "mode": "standard"})
    return boto3.client("dynamodb", endpoint_url=os.environ["AWS_ENDPOINT_URL"], config=config)


def create(name, **settings):
    client(1).create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        **settings,
    )


class Throttle(unittest.TestCase):
    def throttled(self, table):
        """The error of the first write that is throttled; retries are off."""
        for n in range(2000):
            try:
                client.without.put_item(TableName=table, Item={"id": {"S": str(n)}, "text": {"S": "x" * 20_000}})
            except ClientError as e:
                return e
        self.fail("nothing is throttled")

    def expect(self, e, exception, reasons, reason, table):
        self.assertIsInstance(e, exception)
        got = e.response[reasons]
        self.assertEqual([r["reason"] for r in got], [reason])
        self.assertTrue(got[0]["resource"].endswith(":table/" + table), got)

    def test_provisioned(self):
        create("Provisioned", ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 1})
        e = self.throttled("Provisioned")
        self.expect(e, client.without.exceptions.ProvisionedThroughputExceededException,
                    "ThrottlingReasons", "TableWriteProvisionedThroughputExceeded", "Provisioned")

    def test_on_demand(self):
        create("OnDemand", BillingMode="PAY_PER_REQUEST", OnDemandThroughput={"MaxReadRequestUnits": 1, "MaxWriteRequestUnits": 1})
        e = self.throttled("OnDemand")
        self.expect(e, client.without.exceptions.ThrottlingException,
                    "throttlingReasons", "TableWriteMaxOnDemandThroughputExceeded", "OnDemand")

    def test_batches_end(self):
        create("Batches", ProvisionedThroughput={"ReadCapacityUnits": 100, "WriteCapacityUnits": 10})
        with_retries = client(20)
        todo = {"Batches": [{"PutRequest": {"Item": {"id": {"S": str(n)}}}} for n in range(25)]}
        partial = 0
        while todo:
            todo = with_retries.batch_write_item(RequestItems=todo)["UnprocessedItems"]
            partial += 1 if todo else 0
        self.assertGreater(partial, 0)
        self.assertEqual(with_retries.scan(TableName="Batches", Select="COUNT")["Count"], 25)


client.without = client(1)
