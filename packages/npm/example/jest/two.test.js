"use strict";

const { DynamoDBClient, PutItemCommand, ScanCommand } = require("@aws-sdk/client-dynamodb");

const client = new DynamoDBClient({});

test("a file has a database of its own", async () => {
  await client.send(new PutItemCommand({ TableName: "Orders", Item: { id: { S: "two" } } }));
  const { Items } = await client.send(new ScanCommand({ TableName: "Orders" }));
  expect(Items.map((i) => i.id.S).sort()).toEqual(["base", "two"]);
});
