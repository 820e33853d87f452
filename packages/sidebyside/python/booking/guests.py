"""Guests, each with an email address of their own and a purse of credits."""

from botocore.exceptions import ClientError

from .errors import BookingError, code_of, failed_actions, on_failed_condition


class Guests:
    def __init__(self, resource):
        self.table = resource.Table("Guests")
        # The client of a resource takes values of Python.
        self.client = resource.meta.client

    def _transact(self, actions, texts):
        try:
            self.client.transact_write_items(TransactItems=actions)
        except ClientError as error:
            failed = failed_actions(error)
            if code_of(error) != "TransactionCanceledException" or not failed:
                raise
            raise BookingError("refused", texts[failed[0]]) from None

    def register(self, id, email, **more):
        if "@" not in (email or ""):
            raise BookingError("invalid", "the email address has no @")
        guest = {"pk": f"guest#{id}", "id": id, "email": email, "credits": 0, **more}
        self._transact(
            [
                {"Put": {"TableName": "Guests", "Item": guest, "ConditionExpression": "attribute_not_exists(pk)"}},
                {
                    "Put": {
                        "TableName": "Guests",
                        "Item": {"pk": f"email#{email.lower()}", "id": id},
                        "ConditionExpression": "attribute_not_exists(pk)",
                    }
                },
            ],
            [f"there is a guest {id} already", f"{email} is in use"],
        )
        return guest

    def get(self, id):
        guest = self.table.get_item(Key={"pk": f"guest#{id}"}, ConsistentRead=True).get("Item")
        if guest is None:
            raise BookingError("not-found", f"there is no guest {id}")
        return guest

    def by_email(self, email):
        entry = self.table.get_item(Key={"pk": f"email#{email.lower()}"}, ConsistentRead=True).get("Item")
        return self.get(entry["id"]) if entry else None

    def credit(self, id, amount):
        with on_failed_condition("not-found", f"there is no guest {id}"):
            return self.table.update_item(
                Key={"pk": f"guest#{id}"}, UpdateExpression="ADD credits :a", ExpressionAttributeValues={":a": amount},
                ConditionExpression="attribute_exists(pk)", ReturnValues="UPDATED_NEW",
            )["Attributes"]["credits"]

    def transfer(self, giver, taker, amount):
        """Moves credits from one guest to another, or does nothing."""
        if amount <= 0:
            raise BookingError("invalid", "an amount is more than 0")

        def update(id, change, condition, values):
            return {
                "Update": {
                    "TableName": "Guests", "Key": {"pk": f"guest#{id}"}, "UpdateExpression": "ADD credits :a",
                    "ConditionExpression": condition, "ExpressionAttributeValues": {":a": change, **values},
                }
            }

        self._transact(
            [
                update(giver, -amount, "credits >= :least", {":least": amount}),
                update(taker, amount, "attribute_exists(pk)", {}),
            ],
            [f"guest {giver} does not have {amount} credits", f"there is no guest {taker}"],
        )

    def remove(self, id):
        guest = self.get(id)
        self._transact(
            [
                {
                    "Delete": {
                        "TableName": "Guests", "Key": {"pk": guest["pk"]}, "ConditionExpression": "credits = :none",
                        "ExpressionAttributeValues": {":none": 0},
                    }
                },
                {"Delete": {"TableName": "Guests", "Key": {"pk": f"email#{guest['email'].lower()}"}}},
            ],
            [f"guest {id} has credits left"],
        )
