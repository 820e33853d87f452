"""Rooms: what there is to book."""

from boto3.dynamodb.conditions import Attr, Key

from .errors import BookingError, on_failed_condition


class Rooms:
    def __init__(self, resource):
        self.resource = resource
        self.table = resource.Table("Rooms")

    @staticmethod
    def check(room):
        if not isinstance(room.get("id"), str) or not 1 <= len(room["id"]) <= 30:
            raise BookingError("invalid", "id must have 1 to 30 letters")
        if not room.get("building"):
            raise BookingError("invalid", "building is missing")
        seats = room.get("seats")
        if not isinstance(seats, int) or isinstance(seats, bool) or seats < 1:
            raise BookingError("invalid", "seats must be a whole number from 1")

    def add(self, **room):
        self.check(room)
        room = {**room, "version": 1}
        if "equipment" in room:
            room["equipment"] = set(room["equipment"])
            if not room["equipment"]:
                del room["equipment"]
        with on_failed_condition("exists", f"there is a room {room['id']} already"):
            self.table.put_item(Item=room, ConditionExpression=Attr("id").not_exists())
        return room

    def load(self, rooms):
        """Stores many rooms, whether they exist or not."""
        with self.table.batch_writer(overwrite_by_pkeys=["id"]) as batch:
            for room in rooms:
                self.check(room)
                batch.put_item(Item={**room, "version": 1})

    def get(self, id, *attributes):
        arguments = {}
        if attributes:
            names = {f"#a{i}": name for i, name in enumerate(attributes)}
            arguments = {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names}
        item = self.table.get_item(Key={"id": id}, ConsistentRead=True, **arguments).get("Item")
        if item is None:
            raise BookingError("not-found", f"there is no room {id}")
        return item

    def get_all(self, ids):
        """Returns the rooms that exist, by id."""
        found, ids = {}, list(dict.fromkeys(ids))
        for i in range(0, len(ids), 100):
            request = {"Rooms": {"Keys": [{"id": id} for id in ids[i : i + 100]]}}
            while request:
                reply = self.resource.batch_get_item(RequestItems=request)
                found.update((room["id"], room) for room in reply["Responses"]["Rooms"])
                request = reply.get("UnprocessedKeys")
        return found

    def change(self, id, version, remove=(), **values):
        """Changes a room that has a version; a newer one is a conflict."""
        if {"id", "version"} & {*values, *remove}:
            raise BookingError("invalid", "id and version cannot be changed")
        names = {"#version": "version"}
        numbers = {":version": version, ":one": 1}
        sets, removes = ["#version = #version + :one"], []
        for i, (name, value) in enumerate(values.items()):
            names[f"#s{i}"], numbers[f":s{i}"] = name, value
            sets.append(f"#s{i} = :s{i}")
        for i, name in enumerate(remove):
            names[f"#r{i}"] = name
            removes.append(f"#r{i}")
        with on_failed_condition("conflict", f"room {id} does not have version {version}"):
            return self.table.update_item(
                Key={"id": id},
                UpdateExpression="SET " + ", ".join(sets) + (" REMOVE " + ", ".join(removes) if removes else ""),
                ConditionExpression="#version = :version",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=numbers,
                ReturnValues="ALL_NEW",
            )["Attributes"]

    def _update(self, id, expression, values, **more):
        with on_failed_condition("not-found", f"there is no room {id}"):
            return self.table.update_item(
                Key={"id": id}, UpdateExpression=expression, ExpressionAttributeValues=values,
                ConditionExpression="attribute_exists(id)", ReturnValues="ALL_NEW", **more,
            )["Attributes"]

    def equip(self, id, *things):
        return self._update(id, "ADD equipment :t", {":t": set(things)})["equipment"]

    def strip(self, id, *things):
        return self._update(id, "DELETE equipment :t", {":t": set(things)}).get("equipment", set())

    def note(self, id, text):
        """Puts a note before those that are there, and keeps the last five."""
        room = self._update(
            id, "SET notes = list_append(:n, if_not_exists(notes, :none))", {":n": [text], ":none": []}
        )
        if len(room["notes"]) > 5:
            with on_failed_condition("not-found", f"there is no room {id}"):
                room = self.table.update_item(
                    Key={"id": id}, UpdateExpression="REMOVE notes[5]", ReturnValues="ALL_NEW",
                    ConditionExpression="attribute_exists(id)",
                )["Attributes"]
        return room["notes"]

    def price(self, id, season, amount):
        """Sets the price of a season in a map."""
        self._update(id, "SET prices = if_not_exists(prices, :none)", {":none": {}})
        return self._update(
            id, "SET prices.#s = :a", {":a": amount}, ExpressionAttributeNames={"#s": season}
        )["prices"]

    def in_building(self, building, least=None, most=None, equipment=None, limit=None, start=None, largest_first=False):
        """Returns a page of the rooms of a building by their seats, and where the next begins."""
        condition = Key("building").eq(building)
        if least is not None and most is not None:
            condition &= Key("seats").between(least, most)
        elif least is not None:
            condition &= Key("seats").gte(least)
        elif most is not None:
            condition &= Key("seats").lte(most)
        arguments = {"KeyConditionExpression": condition, "IndexName": "by-building", "ScanIndexForward": not largest_first}
        if equipment:
            arguments["FilterExpression"] = Attr("equipment").contains(equipment)
        if limit is not None:
            arguments["Limit"] = limit
        if start:
            arguments["ExclusiveStartKey"] = start
        reply = self.table.query(**arguments)
        return reply["Items"], reply.get("LastEvaluatedKey")

    def search(self, filter, segments=1):
        """Returns the ids of all rooms for which a filter holds."""
        ids = []
        for segment in range(segments):
            arguments = {"FilterExpression": filter, "Segment": segment, "TotalSegments": segments}
            while True:
                reply = self.table.scan(**arguments)
                ids += [room["id"] for room in reply["Items"]]
                if "LastEvaluatedKey" not in reply:
                    break
                arguments["ExclusiveStartKey"] = reply["LastEvaluatedKey"]
        return sorted(ids)

    def remove(self, id):
        old = self.table.delete_item(Key={"id": id}, ReturnValues="ALL_OLD").get("Attributes")
        if old is None:
            raise BookingError("not-found", f"there is no room {id}")
        return old
