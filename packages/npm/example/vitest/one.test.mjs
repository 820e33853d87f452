import { DynamoDBClient, PutItemCommand, ScanCommand } from "@aws-sdk/client-dynamodb";
import { expect, test } from "vitest";

const client = new DynamoDBClient({});

test("a file has a database of its own", async () => {
  await client.send(new PutItemCommand({ TableName: "Orders", Item: { id: { S: "one" } } }));
  const { Items } = await client.send(new ScanCommand({ TableName: "Orders" }));
  expect(Items.map((i) => i.id.S).sort()).toEqual(["base", "one"]);
});
