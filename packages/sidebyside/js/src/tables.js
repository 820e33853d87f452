"use strict";

const string = (...names) => names.map((AttributeName) => ({ AttributeName, AttributeType: "S" }));
const number = (...names) => names.map((AttributeName) => ({ AttributeName, AttributeType: "N" }));
const key = (hash, range) => [
  { AttributeName: hash, KeyType: "HASH" },
  ...(range ? [{ AttributeName: range, KeyType: "RANGE" }] : []),
];

/** The tables of the shop, as for CreateTable. */
exports.tables = [
  {
    TableName: "Products",
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: [...string("id", "category"), ...number("price")],
    KeySchema: key("id"),
    GlobalSecondaryIndexes: [
      { IndexName: "by-category", KeySchema: key("category", "price"), Projection: { ProjectionType: "ALL" } },
    ],
  },
  {
    TableName: "Customers",
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: string("pk"),
    KeySchema: key("pk"),
  },
  {
    TableName: "Carts",
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: string("customer"),
    KeySchema: key("customer"),
  },
  {
    TableName: "Orders",
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: string("customer", "id", "status", "placedAt"),
    KeySchema: key("customer", "id"),
    LocalSecondaryIndexes: [
      { IndexName: "by-date", KeySchema: key("customer", "placedAt"), Projection: { ProjectionType: "ALL" } },
    ],
    GlobalSecondaryIndexes: [
      {
        IndexName: "by-status",
        KeySchema: key("status", "placedAt"),
        Projection: { ProjectionType: "INCLUDE", NonKeyAttributes: ["total"] },
      },
    ],
    StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" },
  },
  {
    TableName: "Sales",
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: string("day"),
    KeySchema: key("day"),
  },
];

/** The attributes of time to live, as for UpdateTimeToLive. */
exports.timeToLive = [
  { TableName: "Carts", TimeToLiveSpecification: { AttributeName: "expiresAt", Enabled: true } },
];
