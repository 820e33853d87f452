"""boto3: the resource API and the client of AWS's SDK for Python."""

import os
import unittest
from decimal import Decimal

try:
    import boto3
    from boto3.dynamodb.conditions import Attr, Key
    from boto3.dynamodb.types import Binary
    from botocore.exceptions import ClientError
except ImportError:
    raise unittest.SkipTest("boto3 is not installed (Debian: apt install python3-boto3)")

endpoint = os.environ["AWS_ENDPOINT_URL"]


class Boto3(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Older versions do not read the endpoint from the environment.
        cls.dynamodb = boto3.resource("dynamodb", endpoint_url=endpoint)
        cls.client = cls.dynamodb.meta.client
        cls.table = cls.dynamodb.create_table(
            TableName="Movies",
            AttributeDefinitions=[
                {"AttributeName": "year", "AttributeType": "N"},
                {"AttributeName": "title", "AttributeType": "S"},
                {"AttributeName": "genre", "AttributeType": "S"},
            ],
            KeySchema=[
                {"AttributeName": "year", "KeyType": "HASH"},
                {"AttributeName": "title", "KeyType": "RANGE"},
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "byGenre",
                    "KeySchema": [
                        {"AttributeName": "genre", "KeyType": "HASH"},
                        {"AttributeName": "title", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        cls.table.wait_until_exists()

    @classmethod
    def tearDownClass(cls):
        cls.table.delete()
        cls.table.wait_until_not_exists()

    def test_describe(self):
        self.table.reload()
        self.assertEqual(self.table.table_status, "ACTIVE")
        self.assertEqual(self.table.key_schema[1]["AttributeName"], "title")
        self.assertIn("Movies", [t.name for t in self.dynamodb.tables.all()])
        pages = self.client.get_paginator("list_tables").paginate(PaginationConfig={"PageSize": 1})
        self.assertIn("Movies", [name for page in pages for name in page["TableNames"]])

    def test_values_are_read_back(self):
        item = {
            "year": 1,
            "title": "values",
            "rating": Decimal("9.8765432109876543210987654321098765432"),
            "plot": {"deep": [{"er": None}, True, Decimal("-1E-100")]},
            "cast": {"ada", "bob"},
            "numbers": {Decimal(1), Decimal("2.5")},
            "poster": Binary(b"\x00\xff"),
            "posters": {Binary(b"a"), Binary(b"b")},
            "empty": "",
        }
        self.table.put_item(Item=item)
        key = {"year": 1, "title": "values"}
        self.assertEqual(self.table.get_item(Key=key, ConsistentRead=True)["Item"], item)
        self.assertNotIn("Item", self.table.get_item(Key={"year": 1, "title": "none"}))
        old = self.table.delete_item(Key=key, ReturnValues="ALL_OLD")
        self.assertEqual(old["Attributes"], item)

    def test_update_and_condition(self):
        key = {"year": 2, "title": "update"}
        new = self.table.update_item(
            Key=key,
            UpdateExpression="SET info = :i ADD votes :n",
            ExpressionAttributeValues={":i": {"rating": Decimal("1.5")}, ":n": 2},
            ConditionExpression=Attr("year").not_exists(),
            ReturnValues="ALL_NEW",
        )["Attributes"]
        self.assertEqual(new, {**key, "info": {"rating": Decimal("1.5")}, "votes": 2})
        with self.assertRaises(self.client.exceptions.ConditionalCheckFailedException) as failed:
            self.table.put_item(Item=key, ConditionExpression=Attr("info.rating").gt(2) | Attr("votes").is_in([3, 4]))
        self.assertEqual(failed.exception.response["Error"]["Message"], "The conditional request failed")
        self.assertEqual(failed.exception.response["ResponseMetadata"]["HTTPStatusCode"], 400)

    def test_batch_query_scan(self):
        with self.table.batch_writer(overwrite_by_pkeys=["year", "title"]) as batch:
            for i in range(60):
                batch.put_item(Item={"year": 3, "title": "m%02d" % i, "genre": "comedy" if i % 2 else "drama", "n": i})
            batch.put_item(Item={"year": 3, "title": "m00", "genre": "drama", "n": 0})
        found = self.table.query(
            KeyConditionExpression=Key("year").eq(3) & Key("title").between("m10", "m20"),
            FilterExpression=Attr("genre").eq("drama") & ~Attr("n").between(14, 16) & Attr("genre").size().lt(6),
            ProjectionExpression="#n",
            ExpressionAttributeNames={"#n": "n"},
            ScanIndexForward=False,
        )
        self.assertEqual([item["n"] for item in found["Items"]], [20, 18, 12, 10])
        self.assertEqual(found["ScannedCount"], 11)
        comedies = self.table.query(IndexName="byGenre", KeyConditionExpression=Key("genre").eq("comedy"))
        self.assertEqual(comedies["Count"], 30)
        self.assertNotIn("n", comedies["Items"][0])

        pages = list(self.client.get_paginator("scan").paginate(
            TableName="Movies", FilterExpression=Attr("year").eq(3), PaginationConfig={"PageSize": 25}))
        self.assertEqual(sum(page["Count"] for page in pages), 60)
        self.assertGreaterEqual(len(pages), 3)
        got = self.dynamodb.batch_get_item(
            RequestItems={"Movies": {"Keys": [{"year": 3, "title": "m%02d" % i} for i in range(59, 62)]}})
        self.assertEqual(len(got["Responses"]["Movies"]), 1)
        self.assertEqual(got["UnprocessedKeys"], {})

    def test_transactions(self):
        def put(title):
            return {"Put": {"TableName": "Movies", "Item": {"year": 4, "title": title},
                            "ConditionExpression": "attribute_not_exists(title)"}}

        self.client.transact_write_items(TransactItems=[put("a"), put("b")])
        with self.assertRaises(self.client.exceptions.TransactionCanceledException) as canceled:
            self.client.transact_write_items(TransactItems=[put("c"), put("b")])
        reasons = canceled.exception.response["CancellationReasons"]
        self.assertEqual([r["Code"] for r in reasons], ["None", "ConditionalCheckFailed"])
        got = self.client.transact_get_items(TransactItems=[
            {"Get": {"TableName": "Movies", "Key": {"year": 4, "title": title}}} for title in ("a", "c")])
        self.assertEqual(got["Responses"], [{"Item": {"year": 4, "title": "a"}}, {}])

    def test_faults(self):
        with self.assertRaises(self.client.exceptions.ResourceNotFoundException):
            self.dynamodb.Table("Nowhere").load()
        with self.assertRaises(ClientError) as refused:
            self.table.get_item(Key={"year": "not a number", "title": "x"})
        self.assertEqual(refused.exception.response["Error"], {
            "Code": "ValidationException", "Message": "The provided key element does not match the schema"})


if __name__ == "__main__":
    unittest.main()
