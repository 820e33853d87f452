"""The tables of the service, as for CreateTable."""


def _attributes(**types):
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()]


def _key(partition, sort=None):
    key = [{"AttributeName": partition, "KeyType": "HASH"}]
    return key + [{"AttributeName": sort, "KeyType": "RANGE"}] if sort else key


TABLES = [
    {
        "TableName": "Rooms",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": _attributes(id="S", building="S", seats="N"),
        "KeySchema": _key("id"),
        "GlobalSecondaryIndexes": [
            {"IndexName": "by-building", "KeySchema": _key("building", "seats"), "Projection": {"ProjectionType": "ALL"}}
        ],
    },
    {
        "TableName": "Guests",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": _attributes(pk="S"),
        "KeySchema": _key("pk"),
    },
    {
        "TableName": "Bookings",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": _attributes(room="S", slot="S", guest="S"),
        "KeySchema": _key("room", "slot"),
        "GlobalSecondaryIndexes": [
            {"IndexName": "by-guest", "KeySchema": _key("guest", "slot"), "Projection": {"ProjectionType": "KEYS_ONLY"}}
        ],
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    },
    {
        "TableName": "Holds",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": _attributes(room="S", slot="S"),
        "KeySchema": _key("room", "slot"),
    },
]

TIME_TO_LIVE = [{"TableName": "Holds", "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True}}]
