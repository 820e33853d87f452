"use strict";

const { UpdateCommand } = require("@aws-sdk/lib-dynamodb");
const { refused, shopForTests } = require("./support.js");

const shop = shopForTests();
const { carts } = shop;
const DAY = 24 * 60 * 60 * 1000;
const at = async (time, work) => {
  shop.now = () => time;
  try {
    return await work();
  } finally {
    shop.now = Date.now;
  }
};
/** Makes a cart that has expired. */
const expired = async (customer) => {
  await carts.add(customer, "lamp");
  await shop.db.send(
    new UpdateCommand({
      TableName: "Carts", Key: { customer }, UpdateExpression: "SET expiresAt = :e",
      ExpressionAttributeValues: { ":e": Math.floor(Date.now() / 1000) - 5 },
    }),
  );
};
const gone = (customer) => async () => (await carts.read(customer)) === undefined;

test("a new cart is empty", async () => {
  expect(await carts.lines(shop.name("c"))).toEqual({});
});
test("a line has a quantity", async () => {
  expect(await carts.add(shop.name("c"), "lamp", 3)).toEqual({ lamp: 3 });
});
test("quantities of one product are added", async () => {
  const c = shop.name("c");
  await carts.add(c, "lamp", 3);
  await carts.add(c, "chair");
  expect(await carts.add(c, "lamp")).toEqual({ lamp: 4, chair: 1 });
});
test("parallel additions are all counted", async () => {
  const c = shop.name("c");
  await carts.add(c, "lamp");
  await Promise.all(Array.from({ length: 8 }, () => carts.add(c, "lamp")));
  expect(await carts.lines(c)).toEqual({ lamp: 9 });
});
test.each([0, -1, 1.5, "two"])("a quantity of %p is refused", async (q) => {
  await expect(carts.add(shop.name("c"), "lamp", q)).rejects.toEqual(refused("Invalid"));
});
test("carts are apart", async () => {
  const [a, b] = [shop.name("c"), shop.name("c")];
  await carts.add(a, "lamp");
  expect(await carts.lines(b)).toEqual({});
});
test("a product may have any name", async () => {
  const c = shop.name("c");
  await carts.add(c, "size.L [red]", 2);
  expect(await carts.lines(c)).toEqual({ "size.L [red]": 2 });
});
test("a quantity is set", async () => {
  const c = shop.name("c");
  await carts.add(c, "lamp", 3);
  expect(await carts.set(c, "lamp", 1)).toEqual({ lamp: 1 });
});
test("a quantity of 0 removes the line", async () => {
  const c = shop.name("c");
  await carts.add(c, "lamp", 3);
  await carts.add(c, "chair");
  expect(await carts.set(c, "lamp", 0)).toEqual({ chair: 1 });
});
test("only lines that are there are set", async () => {
  const c = shop.name("c");
  await carts.add(c, "lamp");
  await expect(carts.set(c, "chair", 1)).rejects.toEqual(refused("NotInCart", "chair"));
});
test("a line of a cart that is missing", async () => {
  await expect(carts.set(shop.name("c"), "chair", 1)).rejects.toEqual(refused("NotInCart"));
});
test("a cart has at most 20 lines", async () => {
  const c = shop.name("c");
  for (let i = 0; i < 20; i++) await carts.add(c, `p${i}`);
  await expect(carts.add(c, "p20")).rejects.toEqual(refused("CartFull", "20"));
  expect((await carts.add(c, "p3")).p3).toBe(2);
});
test("clearing tells how many lines there were", async () => {
  const c = shop.name("c");
  await carts.add(c, "lamp", 3);
  await carts.add(c, "chair");
  expect(await carts.clear(c)).toBe(2);
  expect(await carts.clear(c)).toBe(0);
});
test("merging adds up", async () => {
  const [visitor, c] = [shop.name("v"), shop.name("c")];
  await carts.add(visitor, "lamp", 2);
  await carts.add(visitor, "rug");
  await carts.add(c, "lamp");
  expect(await carts.merge(visitor, c)).toEqual({ lamp: 3, rug: 1 });
  expect(await carts.lines(visitor)).toEqual({});
});
test("merging an empty cart changes nothing", async () => {
  const c = shop.name("c");
  await carts.add(c, "lamp");
  expect(await carts.merge(shop.name("v"), c)).toEqual({ lamp: 1 });
});

describe("expiry", () => {
  test("a cart lives a day from its last change", async () => {
    const c = shop.name("c");
    const now = Math.floor(Date.now() / 1000) * 1000;
    await at(now, () => carts.add(c, "lamp"));
    expect((await carts.read(c)).expiresAt).toBe((now + DAY) / 1000);
    await at(now + 5000, () => carts.set(c, "lamp", 2));
    expect((await carts.read(c)).expiresAt).toBe((now + DAY) / 1000 + 5);
  });
  test("an expired cart is empty before it is deleted", async () => {
    const c = shop.name("c");
    await carts.add(c, "lamp");
    await at(Date.now() + DAY + 1000, async () => expect(await carts.lines(c)).toEqual({}));
    expect(await carts.lines(c)).toEqual({ lamp: 1 });
  });
  test("a line in an expired cart begins a new one", async () => {
    const c = shop.name("c");
    await carts.add(c, "lamp");
    await at(Date.now() + DAY + 1000, async () => expect(await carts.add(c, "chair")).toEqual({ chair: 1 }));
  });
  test("an expired cart is deleted", async () => {
    const c = shop.name("c");
    await expired(c);
    await expire(gone(c));
    expect(await carts.read(c)).toBeUndefined();
  });
  test("a cart that has not expired stays", async () => {
    const [old, fresh] = [shop.name("c"), shop.name("c")];
    await carts.add(fresh, "lamp");
    await expired(old);
    await expire(gone(old));
    expect(await carts.lines(fresh)).toEqual({ lamp: 1 });
  });
  test("of many carts those are deleted that have expired", async () => {
    const names = Array.from({ length: 12 }, () => shop.name("c"));
    for (const [i, c] of names.entries()) await (i % 2 ? expired(c) : carts.add(c, "lamp"));
    await expire(async () => (await Promise.all(names.map((c) => carts.read(c)))).filter(Boolean).length === 6);
    expect((await Promise.all(names.map((c) => carts.read(c)))).map(Boolean)).toEqual(names.map((_, i) => i % 2 === 0));
  });
  test("a change before the deletion keeps a cart", async () => {
    const [old, kept] = [shop.name("c"), shop.name("c")];
    await carts.add(kept, "lamp");
    await carts.add(kept, "lamp");
    await expired(old);
    await expire(gone(old));
    expect(await carts.lines(kept)).toEqual({ lamp: 2 });
  });
});
