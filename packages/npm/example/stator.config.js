"use strict";

module.exports = {
  tables: [
    {
      TableName: "Orders",
      BillingMode: "PAY_PER_REQUEST",
      AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
      KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
    },
  ],
  seed: (server) => server.send("PutItem", { TableName: "Orders", Item: { id: { S: "base" } } }),
};
