"use strict";

const { shopForTests } = require("./support.js");

const shop = shopForTests();
const { carts, orders } = shop;

async function order(quantity = 1) {
  const { id: customer } = await shop.customer();
  const product = await shop.product();
  await carts.add(customer, product.id, quantity);
  return orders.place(customer, shop.name("order"));
}
/** What happened since, of one order. */
const of = (events, { customer, id }) => events.filter((e) => e.key.customer === customer && e.key.id === id);

test("a new order is an INSERT with its image", async () => {
  const events = shop.events();
  const o = await order();
  const [event] = of(await events.next(), o);
  expect(event).toMatchObject({ name: "INSERT", key: { customer: o.customer, id: o.id }, view: "NEW_AND_OLD_IMAGES" });
  expect(event.after).toEqual(o);
  expect(event.before).toBeUndefined();
});
test("a change is a MODIFY with both images", async () => {
  const events = shop.events();
  const o = await order();
  await orders.move(o.customer, o.id, "paid");
  const [, event] = of(await events.next(), o);
  expect(event.name).toBe("MODIFY");
  expect([event.before.status, event.after.status]).toEqual(["placed", "paid"]);
  expect(event.after.version).toBe(2);
});
test("a deletion is a REMOVE with the image before", async () => {
  const { DeleteCommand } = require("@aws-sdk/lib-dynamodb");
  const events = shop.events();
  const o = await order();
  await shop.db.send(new DeleteCommand({ TableName: "Orders", Key: { customer: o.customer, id: o.id } }));
  const [, event] = of(await events.next(), o);
  expect(event.name).toBe("REMOVE");
  expect(event.before.id).toBe(o.id);
  expect(event.after).toBeUndefined();
  expect(event.userIdentity).toBeUndefined();
});
test("changes of one order are in their order", async () => {
  const events = shop.events();
  const o = await order();
  for (const to of ["paid", "shipped", "delivered", "returned"]) await orders.move(o.customer, o.id, to);
  const seen = of(await events.next(), o);
  expect(seen.map((e) => e.after.status)).toEqual(["placed", "paid", "shipped", "delivered", "returned"]);
  expect(seen.map((e) => e.sequence)).toEqual(seen.map((e) => e.sequence).sort((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1)));
});
test("each event has an id of its own", async () => {
  const events = shop.events();
  const o = await order();
  await orders.move(o.customer, o.id, "paid");
  const ids = (await events.next()).map((e) => e.id);
  expect(new Set(ids).size).toBe(ids.length);
});
test("a failed request is no event", async () => {
  const events = shop.events();
  const o = await order();
  await expect(orders.submit(o)).rejects.toThrow();
  expect(of(await events.next(), o)).toHaveLength(1);
});
test("a write that changes nothing is no event", async () => {
  const { PutCommand } = require("@aws-sdk/lib-dynamodb");
  const events = shop.events();
  const o = await order();
  await shop.db.send(new PutCommand({ TableName: "Orders", Item: o }));
  expect(of(await events.next(), o)).toHaveLength(1);
});
test("a reader goes on where it was", async () => {
  const events = shop.events();
  const o = await order();
  expect(of(await events.next(), o)).toHaveLength(1);
  expect(await events.next()).toEqual([]);
  await orders.move(o.customer, o.id, "paid");
  expect((await events.next()).map((e) => e.after.status)).toEqual(["paid"]);
});
test("two readers do not disturb each other", async () => {
  const [a, b] = [shop.events(), shop.events()];
  const o = await order();
  await a.next();
  expect(of(await b.next(), o)).toHaveLength(1);
});
test.each([1, 2, 1000])("%i records at a time are all", async (limit) => {
  const events = shop.events();
  await events.next();
  const made = [await order(), await order(), await order()];
  const seen = await events.next(limit);
  expect(seen.map((e) => e.key.id).sort()).toEqual(made.map((o) => o.id).sort());
});
test("more than 1000 records at a time are refused", async () => {
  await order();
  await expect(shop.events().next(1001)).rejects.toMatchObject({ name: "ValidationException" });
});
test("a table without a stream has no ARN", async () => {
  const { Events } = require("../src/events.js");
  expect(await new Events(shop.db, shop.streams, "Carts").arn()).toBeUndefined();
});
test("the stream has shards", async () => {
  expect((await shop.events().shards()).length).toBeGreaterThan(0);
});
test("the stream is the one that ListStreams has", async () => {
  const { ListStreamsCommand } = require("@aws-sdk/client-dynamodb-streams");
  const { Streams } = await shop.streams.send(new ListStreamsCommand({ TableName: "Orders" }));
  expect(Streams.map((s) => s.StreamArn)).toEqual([await shop.events().arn()]);
});
test("the iterator of a stream that is unknown", async () => {
  const { DescribeStreamCommand } = require("@aws-sdk/client-dynamodb-streams");
  const arn = (await shop.events().arn()).replace("Orders", "Nothing");
  await expect(shop.streams.send(new DescribeStreamCommand({ StreamArn: arn }))).rejects.toMatchObject({ name: "ResourceNotFoundException" });
});

describe("sales", () => {
  const DAY = "2031-05-06";
  let events;
  const sell = async (total, ...path) => {
    const o = { customer: shop.name("c"), id: "o", status: "placed", total, placedAt: `${DAY}T10:00:00.000Z`, version: 1, lines: [] };
    await orders.submit(o);
    for (const to of path) await orders.move(o.customer, o.id, to);
  };
  const count = async () => {
    for (const e of await events.next()) await shop.sales.apply(e);
    return shop.sales.of(DAY);
  };
  beforeAll(async () => {
    events = shop.events();
    await events.next();
  });
  test("a day without orders has none", async () => {
    expect(await shop.sales.of("2031-01-01")).toEqual({ total: 0, orders: 0 });
  });
  test("an order counts when it is paid, and not when it is returned", async () => {
    await sell(1000);
    expect(await count()).toEqual({ total: 0, orders: 0 });
    await sell(500, "paid");
    expect(await count()).toEqual({ total: 500, orders: 1 });
    await sell(70, "paid", "shipped", "delivered");
    expect(await count()).toEqual({ total: 570, orders: 2 });
    await sell(3, "paid", "shipped", "delivered", "returned");
    expect(await count()).toEqual({ total: 570, orders: 2 });
  });
  test("an event that is read twice counts once", async () => {
    const day = "2031-07-08";
    const event = { id: shop.name("event"), after: { status: "paid", total: 5, placedAt: `${day}T` } };
    expect(await shop.sales.apply(event)).toBe(true);
    expect(await shop.sales.apply(event)).toBe(false);
    expect(await shop.sales.of(day)).toEqual({ total: 5, orders: 1 });
  });
  test("parallel events are all counted", async () => {
    const day = "2031-07-09";
    await Promise.all([1, 2, 3, 4].map((total) => shop.sales.apply({ id: shop.name("event"), after: { status: "paid", total, placedAt: `${day}T` } })));
    expect(await shop.sales.of(day)).toEqual({ total: 10, orders: 4 });
  });
});
