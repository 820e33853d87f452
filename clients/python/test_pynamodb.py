"""PynamoDB: models with indexes, versions and transactions."""

import os
import unittest
from datetime import datetime, timedelta, timezone

try:
    from pynamodb.attributes import (
        JSONAttribute, ListAttribute, MapAttribute, NumberAttribute, TTLAttribute, UnicodeAttribute, UnicodeSetAttribute,
        UTCDateTimeAttribute, VersionAttribute,
    )
    from pynamodb.connection import Connection
    from pynamodb.exceptions import DeleteError, DoesNotExist, PutError, TransactWriteError, UpdateError
    from pynamodb.indexes import AllProjection, GlobalSecondaryIndex, KeysOnlyProjection, LocalSecondaryIndex
    from pynamodb.models import Model
    from pynamodb.transactions import TransactGet, TransactWrite
except ImportError:
    raise unittest.SkipTest("pynamodb is not installed (pip install pynamodb; Debian has no package)")

endpoint = os.environ["AWS_ENDPOINT_URL"]


class ByAuthor(GlobalSecondaryIndex):
    class Meta:
        index_name = "byAuthor"
        projection = AllProjection()

    author = UnicodeAttribute(hash_key=True)
    views = NumberAttribute(range_key=True)


class ByViews(LocalSecondaryIndex):
    class Meta:
        index_name = "byViews"
        projection = KeysOnlyProjection()

    forum = UnicodeAttribute(hash_key=True)
    views = NumberAttribute(range_key=True)


class Place(MapAttribute):
    city = UnicodeAttribute()
    floor = NumberAttribute(default=0)


class Thread(Model):
    class Meta:
        table_name = "PynamoThread"
        host = endpoint
        region = "us-east-1"
        billing_mode = "PAY_PER_REQUEST"

    forum = UnicodeAttribute(hash_key=True)
    subject = UnicodeAttribute(range_key=True)
    author = UnicodeAttribute(default="ada")
    views = NumberAttribute(default=0)
    tags = UnicodeSetAttribute(null=True)
    replies = ListAttribute(default=list)
    place = Place(null=True)
    data = JSONAttribute(null=True)
    posted = UTCDateTimeAttribute(null=True)
    expires = TTLAttribute(null=True)
    by_author = ByAuthor()
    by_views = ByViews()


class Account(Model):
    class Meta:
        table_name = "PynamoAccount"
        host = endpoint
        region = "us-east-1"
        read_capacity_units = 1
        write_capacity_units = 1

    name = UnicodeAttribute(hash_key=True)
    balance = NumberAttribute(default=0)
    version = VersionAttribute()


class PynamoDB(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for model in (Thread, Account):
            model.create_table(wait=True)
        with Thread.batch_write() as batch:
            for i in range(60):
                batch.save(Thread("go", f"s{i:02}", views=i, author="ada" if i % 2 else "bob"))

    @classmethod
    def tearDownClass(cls):
        for model in (Thread, Account):
            model.delete_table()
            assert not model.exists()

    def test_save_get_update_delete(self):
        now = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=timezone.utc)
        thread = Thread("py", "one", tags={"a", "b"}, replies=["x", 1, {"y": None}], place=Place(city="Ghent"),
                        data={"deep": [1, 2]}, posted=now, expires=timedelta(hours=1))
        thread.save(Thread.subject.does_not_exist())
        with self.assertRaises(PutError) as caught:
            thread.save(Thread.subject.does_not_exist())
        self.assertEqual(caught.exception.cause_response_code, "ConditionalCheckFailedException")
        got = Thread.get("py", "one", consistent_read=True)
        self.assertEqual((got.tags, got.place.city, got.data, got.posted), ({"a", "b"}, "Ghent", {"deep": [1, 2]}, now))

        got.update([
            Thread.views.add(3), Thread.tags.delete({"a"}), Thread.place.floor.set(Thread.place.floor + 2),
            Thread.replies.set(Thread.replies.append(["z"])), Thread.data.remove(),
        ], condition=(Thread.views == 0) & Thread.tags.contains("a") & Thread.place.city.startswith("G"))
        self.assertEqual((got.views, got.tags, got.place.floor, got.replies[-1], got.data), (3, {"b"}, 2, "z", None))
        with self.assertRaises(UpdateError):
            got.update([Thread.views.set(1)], condition=Thread.views.between(4, 9))
        got.delete()
        with self.assertRaises(DoesNotExist):
            Thread.get("py", "one")

    def test_queries_and_pages(self):
        self.assertEqual(Thread.count("go"), 60)
        found = Thread.query("go", Thread.subject.between("s10", "s19"), filter_condition=Thread.author == "ada", scan_index_forward=False)
        self.assertEqual([t.subject for t in found], ["s19", "s17", "s15", "s13", "s11"])
        self.assertEqual([t.views for t in Thread.by_author.query("bob", ByAuthor.views >= 54)], [54, 56, 58])
        self.assertEqual(len(list(Thread.by_views.query("go", ByViews.views < 5, consistent_read=True))), 5)
        page = Thread.query("go", page_size=7, limit=25)
        self.assertEqual(len(list(page)), 25)
        rest = Thread.query("go", last_evaluated_key=page.last_evaluated_key)
        self.assertEqual(len(list(rest)), 35)
        segments = [list(Thread.scan(segment=i, total_segments=4)) for i in range(4)]
        self.assertEqual(sum(map(len, segments)), 60)
        keys = [("go", f"s{i:02}") for i in range(60)] + [("go", "none")]
        self.assertEqual(len(list(Thread.batch_get(keys, consistent_read=True))), 60)

    def test_versions(self):
        Account("v").save()
        first, second = Account.get("v"), Account.get("v")
        first.update([Account.balance.add(1)])
        self.assertEqual(first.version, 2)
        for late in (second.save, second.delete):
            with self.assertRaises((PutError, DeleteError)) as caught:
                late()
            self.assertEqual(caught.exception.cause_response_code, "ConditionalCheckFailedException")

    def test_transactions_and_their_cancellation_reasons(self):
        connection = Connection(host=endpoint, region="us-east-1")
        with TransactWrite(connection=connection, client_request_token="pynamo-1") as write:
            write.save(Account("a", balance=10), condition=Account.name.does_not_exist())
            write.save(Account("b", balance=0), condition=Account.name.does_not_exist())
        a, b = Account.get("a"), Account.get("b")
        with TransactWrite(connection=connection) as write:
            write.update(a, actions=[Account.balance.add(-4)], condition=Account.balance >= 4)
            write.update(b, actions=[Account.balance.add(4)])
        with TransactGet(connection=connection) as read:
            balances = [read.get(Account, "a"), read.get(Account, "b")]
        self.assertEqual([future.get().balance for future in balances], [6, 4])

        with self.assertRaises(TransactWriteError) as caught:
            with TransactWrite(connection=connection) as write:
                write.condition_check(Account, "b", condition=Account.balance == 4)
                write.update(Account.get("a"), actions=[Account.balance.add(-7)], condition=Account.balance >= 7)
        self.assertEqual(caught.exception.cause_response_code, "TransactionCanceledException")
        reasons = [reason and (reason.code, reason.message) for reason in caught.exception.cancellation_reasons]
        self.assertEqual(reasons, [None, ("ConditionalCheckFailed", "The conditional request failed")])


if __name__ == "__main__":
    unittest.main()
