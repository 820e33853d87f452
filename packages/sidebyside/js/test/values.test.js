"use strict";

const { BatchGetItemCommand, DescribeTableCommand, GetItemCommand, PutItemCommand, QueryCommand, UpdateItemCommand } = require("@aws-sdk/client-dynamodb");
const { ExecuteStatementCommand } = require("@aws-sdk/lib-dynamodb");
const { shopForTests } = require("./support.js");

const shop = shopForTests();
const { client } = shop;
const TableName = "Products";

// What the shop relies on in the database.

test.each([
  ["a string", { S: "ä€😀" }],
  ["an empty string", { S: "" }],
  ["a large number", { N: "12345678901234567890123456789012345678" }],
  ["a small number", { N: "0.00000000000000000000000000000000000001" }],
  ["binary data", { B: new Uint8Array([0, 1, 255]) }],
  ["null", { NULL: true }],
  ["a boolean", { BOOL: false }],
  ["an empty list", { L: [] }],
  ["a nested list", { L: [{ L: [{ S: "a" }] }, { N: "1" }] }],
  ["an empty map", { M: {} }],
  ["a nested map", { M: { a: { M: { "b.c": { BOOL: true } } } } }],
])("%s is stored as it is", async (name, value) => {
  const Key = { id: { S: shop.name("value") } };
  await client.send(new PutItemCommand({ TableName, Item: { ...Key, value } }));
  expect((await client.send(new GetItemCommand({ TableName, Key }))).Item.value).toEqual(value);
});

test.each([
  ["007", "7"],
  ["1.500", "1.5"],
  ["1e3", "1000"],
  ["-0", "0"],
  ["1E-2", "0.01"],
])("the number %s is returned as %s", async (sent, stored) => {
  const Key = { id: { S: shop.name("number") } };
  await client.send(new PutItemCommand({ TableName, Item: { ...Key, value: { N: sent } } }));
  expect((await client.send(new GetItemCommand({ TableName, Key }))).Item.value).toEqual({ N: stored });
});

test.each([
  ["0.1 + 0.2", "0.1", "0.2", "0.3"],
  ["38 digits", "99999999999999999999999999999999999998", "1", "99999999999999999999999999999999999999"],
  ["to nothing", "5", "-5", "0"],
])("sums are exact: %s", async (_, a, b, sum) => {
  const Key = { id: { S: shop.name("sum") } };
  await client.send(new PutItemCommand({ TableName, Item: { ...Key, value: { N: a } } }));
  const { Attributes } = await client.send(
    new UpdateItemCommand({ TableName, Key, UpdateExpression: "ADD #v :b", ExpressionAttributeNames: { "#v": "value" }, ExpressionAttributeValues: { ":b": { N: b } }, ReturnValues: "UPDATED_NEW" }),
  );
  expect(Attributes).toEqual({ value: { N: sum } });
});

const put = (Item) => new PutItemCommand({ TableName, Item });
const update = (UpdateExpression, values, names) =>
  new UpdateItemCommand({ TableName, Key: { id: { S: "x" } }, UpdateExpression, ExpressionAttributeValues: values, ExpressionAttributeNames: names });
const query = (changes) =>
  new QueryCommand({ TableName, KeyConditionExpression: "id = :id", ExpressionAttributeValues: { ":id": { S: "x" } }, ...changes });

test.each([
  ["no key", put({ title: { S: "x" } }), "Missing the key id|required keys was not given"],
  ["a key of another type", put({ id: { N: "1" } }), "Type mismatch for key"],
  ["an empty key", put({ id: { S: "" } }), "empty string value"],
  ["39 digits", put({ id: { S: "x" }, n: { N: "1".repeat(39) } }), "38( significant)? digits"],
  ["a number that is too large", put({ id: { S: "x" }, n: { N: "1e126" } }), "overflow"],
  ["no number", put({ id: { S: "x" }, n: { N: "ten" } }), "cannot be converted (in)?to a num"],
  ["an item of 400 KB", put({ id: { S: "x" }, s: { S: "x".repeat(400 * 1024) } }), "exceeded the maximum allowed size"],
  ["a change of the key", update("SET id = :v", { ":v": { S: "y" } }), "part of the key"],
  ["a value that is not given", update("SET a = :v"), ":v"],
  ["a value that is not used", update("SET a = :v", { ":v": { S: "x" }, ":w": { S: "x" } }), "unused in expressions.*:w"],
  ["a name that is not given", update("SET #a = :v", { ":v": { S: "x" } }), "#a"],
  ["a reserved word", update("SET status = :v", { ":v": { S: "x" } }), "reserved keyword"],
  ["two paths that overlap", update("SET a = :v, a.b = :v", { ":v": { S: "x" } }), "overlap"],
  ["a syntax error", update("SET a == :v", { ":v": { S: "x" } }), "Syntax error"],
  ["an unknown function", update("SET a = upper(:v)", { ":v": { S: "x" } }), "Invalid function name"],
  ["a number plus a string", update("SET a = :v + :w", { ":v": { S: "x" }, ":w": { N: "1" } }), "Incorrect operand type"],
  ["a query without the key", query({ KeyConditionExpression: "title = :id" }), "Query condition missed key schema element"],
  ["an unknown index", query({ IndexName: "by-nothing" }), "does not have the specified index"],
  ["a consistent read of a global index", query({ IndexName: "by-category", KeyConditionExpression: "category = :id", ConsistentRead: true }), "Consistent reads are not supported"],
  ["the same key twice in a batch", new BatchGetItemCommand({ RequestItems: { Products: { Keys: [{ id: { S: "x" } }, { id: { S: "x" } }] } } }), "duplicates"],
])("%s is refused with a message", async (_, command, message) => {
  await expect(client.send(command)).rejects.toMatchObject({ name: "ValidationException", message: expect.stringMatching(message) });
});

test("an unknown table", async () => {
  await expect(client.send(new DescribeTableCommand({ TableName: "Nothing" }))).rejects.toMatchObject({ name: "ResourceNotFoundException" });
});
test("what a request consumed", async () => {
  const reply = await client.send(new PutItemCommand({ TableName, Item: { id: { S: "units" }, s: { S: "x".repeat(1500) } }, ReturnConsumedCapacity: "TOTAL" }));
  expect(reply.ConsumedCapacity).toMatchObject({ TableName, CapacityUnits: 2 });
});
test("statements of PartiQL", async () => {
  const p = await shop.product({ price: 4200 });
  await shop.db.send(new ExecuteStatementCommand({ Statement: 'UPDATE "Products" SET price = ? WHERE id = ?', Parameters: [4300, p.id] }));
  const { Items } = await shop.db.send(new ExecuteStatementCommand({ Statement: 'SELECT id, price FROM "Products" WHERE id = ?', Parameters: [p.id] }));
  expect(Items).toEqual([{ id: p.id, price: 4300 }]);
});
