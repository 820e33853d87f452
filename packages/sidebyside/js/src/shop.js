"use strict";

const { DynamoDBClient } = require("@aws-sdk/client-dynamodb");
const { DynamoDBStreamsClient } = require("@aws-sdk/client-dynamodb-streams");
const { DynamoDBDocumentClient } = require("@aws-sdk/lib-dynamodb");
const { Carts } = require("./carts.js");
const { Customers } = require("./customers.js");
const { Events, Sales } = require("./events.js");
const { Orders } = require("./orders.js");
const { Products } = require("./products.js");

/** The shop. Its database is the one that the SDK finds. */
exports.openShop = function openShop({ now = Date.now } = {}) {
  const client = new DynamoDBClient({});
  const streams = new DynamoDBStreamsClient({});
  const db = DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } });
  const clock = () => shop.now();
  const products = new Products(db);
  const carts = new Carts(db, clock);
  const shop = {
    now, client, db, streams, products, carts,
    customers: new Customers(db),
    orders: new Orders(db, products, carts, clock),
    events: () => new Events(db, streams),
    sales: new Sales(db),
    close: () => [client.destroy(), streams.destroy()],
  };
  return shop;
};
