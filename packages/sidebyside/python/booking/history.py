"""What happened to the bookings, from their stream."""

from boto3.dynamodb.types import TypeDeserializer

_deserialize = TypeDeserializer().deserialize


def _image(image):
    return {name: _deserialize(value) for name, value in image.items()} if image is not None else None


class History:
    """A reader of the stream. It goes on after what it has read."""

    def __init__(self, client, streams, table="Bookings"):
        self.client, self.streams, self.table = client, streams, table
        self.positions = {}

    def arn(self):
        return self.client.describe_table(TableName=self.table)["Table"].get("LatestStreamArn")

    def shards(self):
        return self.streams.describe_stream(StreamArn=self.arn())["StreamDescription"]["Shards"]

    def _iterator(self, arn, shard):
        at = self.positions.get(shard)
        where = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": at} if at else {"ShardIteratorType": "TRIM_HORIZON"}
        return self.streams.get_shard_iterator(StreamArn=arn, ShardId=shard, **where)["ShardIterator"]

    def read(self, limit=1000):
        """Returns the events since the last call; those of one room are in their order."""
        arn, events = self.arn(), []
        for shard in self.shards():
            iterator, empty = self._iterator(arn, shard["ShardId"]), 0
            while iterator and empty < 2:
                reply = self.streams.get_records(ShardIterator=iterator, Limit=limit)
                empty = 0 if reply["Records"] else empty + 1
                for record in reply["Records"]:
                    change = record["dynamodb"]
                    self.positions[shard["ShardId"]] = change["SequenceNumber"]
                    events.append(
                        {
                            "id": record["eventID"], "name": record["eventName"], "key": _image(change["Keys"]),
                            "sequence": int(change["SequenceNumber"]), "before": _image(change.get("OldImage")),
                            "after": _image(change.get("NewImage")),
                        }
                    )
                iterator = reply.get("NextShardIterator")
        return events

    def occupancy(self, events=None):
        """Returns how many hours of each room are booked, from the events alone."""
        hours = {}
        for event in self.read() if events is None else events:
            room = event["key"]["room"]
            hours[room] = hours.get(room, 0) + {"INSERT": 1, "MODIFY": 0, "REMOVE": -1}[event["name"]]
        return hours
