"""boto3 and a server that verifies signatures."""

import os
import unittest

try:
    import boto3
    from botocore.exceptions import ClientError
except ImportError:
    raise unittest.SkipTest("boto3 is not installed (Debian: apt install python3-boto3)")


def client(service="dynamodb", **credentials):
    return boto3.client(service, endpoint_url=os.environ["AWS_ENDPOINT_URL"], **credentials)


class Keys(unittest.TestCase):
    def test_right_key(self):
        db = client()
        db.create_table(
            TableName="Orders",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        )
        for text in ["", "ሴ", "a" * 100_000]:
            item = {"id": {"S": "1"}, "text": {"S": text}, "bytes": {"B": b"\x00\xff"}}
            db.put_item(TableName="Orders", Item=item)
            self.assertEqual(db.get_item(TableName="Orders", Key={"id": {"S": "1"}})["Item"], item)

    def test_other_services(self):
        client("dynamodbstreams").list_streams()
        client("cloudwatch").list_metrics()
        client("application-autoscaling").describe_scalable_targets(ServiceNamespace="dynamodb")

    def expect(self, code, **credentials):
        with self.assertRaises(ClientError) as raised:
            client(**credentials).list_tables()
        self.assertEqual(raised.exception.response["Error"]["Code"], code)

    def test_wrong_keys(self):
        key = os.environ["AWS_ACCESS_KEY_ID"]
        self.expect("InvalidSignatureException", aws_access_key_id=key, aws_secret_access_key="wrong")
        self.expect("UnrecognizedClientException", aws_access_key_id="AKIANOBODY", aws_secret_access_key="wrong")


if __name__ == "__main__":
    unittest.main()
