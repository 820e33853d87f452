"""Bookings: one guest has a room for an hour. A hold keeps it for some minutes."""

from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import ClientError

from .errors import BookingError, code_of, failed_actions, on_failed_condition

HOLD = 15 * 60  # seconds
PRICE = 10  # credits of an hour


class Bookings:
    def __init__(self, resource, now):
        self.table = resource.Table("Bookings")
        self.holds = resource.Table("Holds")
        self.client = resource.meta.client
        self.now = now

    # Holds

    def hold(self, room, slot, guest):
        """Keeps a slot for a guest; a guest may hold it longer, others only once that has expired."""
        if self.find(room, slot):
            raise BookingError("taken", f"{room} is booked at {slot}")
        now = int(self.now())
        with on_failed_condition("held", f"{room} is held by somebody else at {slot}"):
            return self.holds.update_item(
                Key={"room": room, "slot": slot},
                UpdateExpression="SET guest = :g, expires_at = :e",
                ConditionExpression="attribute_not_exists(guest) OR guest = :g OR expires_at <= :now",
                ExpressionAttributeValues={":g": guest, ":e": now + HOLD, ":now": now},
                ReturnValues="ALL_NEW",
            )["Attributes"]

    def held_by(self, room, slot):
        hold = self.stored_hold(room, slot)
        return hold["guest"] if hold and hold["expires_at"] > self.now() else None

    def stored_hold(self, room, slot):
        return self.holds.get_item(Key={"room": room, "slot": slot}, ConsistentRead=True).get("Item")

    def release(self, room, slot, guest):
        with on_failed_condition("held", f"{guest} does not hold {room} at {slot}"):
            self.holds.delete_item(
                Key={"room": room, "slot": slot}, ConditionExpression=Attr("guest").eq(guest)
            )

    # Bookings

    def book(self, room, slot, guest, hours=1, token=None, **details):
        """Books a room for some hours in one transaction with the credits of the guest."""
        slots = [f"{slot[:11]}{int(slot[11:13]) + h:02}" for h in range(hours)]
        if int(slots[-1][11:13]) > 23:
            raise BookingError("invalid", "a booking ends on its day")
        actions = []
        for s in slots:
            booking = {"room": room, "slot": s, "guest": guest, "first": slots[0], "hours": hours, **details}
            actions.append(
                {"Put": {"TableName": "Bookings", "Item": booking, "ConditionExpression": "attribute_not_exists(slot)"}}
            )
        actions += [
            {
                "Update": {
                    "TableName": "Guests", "Key": {"pk": f"guest#{guest}"}, "UpdateExpression": "ADD credits :minus",
                    "ConditionExpression": "credits >= :price",
                    "ExpressionAttributeValues": {":minus": -PRICE * hours, ":price": PRICE * hours},
                }
            },
            {"ConditionCheck": {"TableName": "Rooms", "Key": {"id": room}, "ConditionExpression": "attribute_exists(id)"}},
        ]
        for s in slots:
            actions.append(
                {
                    "Delete": {
                        "TableName": "Holds", "Key": {"room": room, "slot": s},
                        "ConditionExpression": "attribute_not_exists(guest) OR guest = :g OR expires_at <= :now",
                        "ExpressionAttributeValues": {":g": guest, ":now": int(self.now())},
                    }
                }
            )
        try:
            self.client.transact_write_items(TransactItems=actions, **({"ClientRequestToken": token} if token else {}))
        except ClientError as error:
            failed = failed_actions(error)
            if code_of(error) != "TransactionCanceledException" or not failed:
                raise
            first = failed[0]
            if first < hours:
                raise BookingError("taken", f"{room} is booked at {slots[first]}") from None
            if first == hours:
                raise BookingError("credits", f"guest {guest} does not have {PRICE * hours} credits") from None
            if first == hours + 1:
                raise BookingError("not-found", f"there is no room {room}") from None
            raise BookingError("held", f"{room} is held by somebody else") from None
        return slots

    def find(self, room, slot):
        return self.table.get_item(Key={"room": room, "slot": slot}, ConsistentRead=True).get("Item")

    def cancel(self, room, slot, guest):
        """Cancels all hours of a booking, and returns the credits."""
        booking = self.find(room, slot)
        if not booking or booking["guest"] != guest:
            raise BookingError("not-found", f"{guest} has no booking of {room} at {slot}")
        hours, first = int(booking["hours"]), booking["first"]
        slots = [f"{first[:11]}{int(first[11:13]) + h:02}" for h in range(hours)]
        actions = [
            {
                "Delete": {
                    "TableName": "Bookings", "Key": {"room": room, "slot": s}, "ConditionExpression": "guest = :g",
                    "ExpressionAttributeValues": {":g": guest},
                }
            }
            for s in slots
        ]
        actions.append(
            {
                "Update": {
                    "TableName": "Guests", "Key": {"pk": f"guest#{guest}"}, "UpdateExpression": "ADD credits :back",
                    "ExpressionAttributeValues": {":back": PRICE * hours},
                }
            }
        )
        self.client.transact_write_items(TransactItems=actions)
        return slots

    def of_room(self, room, since=None, until=None, day=None, limit=None):
        """Returns all bookings of a room, page by page, by slot."""
        condition = Key("room").eq(room)
        if day:
            condition &= Key("slot").begins_with(day)
        elif since and until:
            condition &= Key("slot").between(since, until)
        elif since:
            condition &= Key("slot").gte(since)
        elif until:
            condition &= Key("slot").lt(until)
        arguments = {"KeyConditionExpression": condition, **({"Limit": limit} if limit else {})}
        items = []
        while True:
            reply = self.table.query(**arguments)
            items += reply["Items"]
            if "LastEvaluatedKey" not in reply:
                return items
            arguments["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    def of_guest(self, guest, after=None):
        condition = Key("guest").eq(guest)
        if after:
            condition &= Key("slot").gt(after)
        return self.table.query(IndexName="by-guest", KeyConditionExpression=condition)["Items"]

    def free(self, room, day, opening=8, closing=18):
        """Returns the hours of a day that are neither booked nor held."""
        taken = {b["slot"] for b in self.of_room(room, day=day)}
        held = self.holds.query(
            KeyConditionExpression=Key("room").eq(room) & Key("slot").begins_with(day),
            FilterExpression=Attr("expires_at").gt(int(self.now())),
        )["Items"]
        taken |= {h["slot"] for h in held}
        return [h for h in range(opening, closing) if f"{day}T{h:02}" not in taken]

    def clear(self, room):
        """Deletes all bookings of a room, in batches, and returns how many there were."""
        bookings = self.of_room(room)
        with self.table.batch_writer() as batch:
            for b in bookings:
                batch.delete_item(Key={"room": b["room"], "slot": b["slot"]})
        return len(bookings)
