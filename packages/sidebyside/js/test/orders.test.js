"use strict";

const { mayFollow, states } = require("../src/orders.js");
const { refused, shopForTests } = require("./support.js");

const shop = shopForTests();
const { carts, customers, orders, products } = shop;

/** A customer with a cart of some products. */
async function shopper(...quantities) {
  const customer = await shop.customer();
  const bought = [];
  for (const quantity of quantities) {
    const product = await shop.product();
    await carts.add(customer.id, product.id, quantity);
    bought.push(product);
  }
  return { customer: customer.id, bought };
}

async function placed(...quantities) {
  const { customer, bought } = await shopper(...(quantities.length ? quantities : [1]));
  const order = await orders.place(customer, shop.name("order"));
  return { customer, bought, order, id: order.id };
}

const paths = {
  placed: [],
  paid: ["paid"],
  cancelled: ["cancelled"],
  shipped: ["paid", "shipped"],
  delivered: ["paid", "shipped", "delivered"],
  returned: ["paid", "shipped", "delivered", "returned"],
};

async function orderIn(state) {
  const o = await placed(2);
  for (const to of paths[state]) await orders.move(o.customer, o.id, to);
  return o;
}

describe("placing", () => {
  test("takes stock, empties the cart and stores the order", async () => {
    const { customer, bought, order } = await placed(2, 3);
    expect(order).toMatchObject({ status: "placed", total: 5000, version: 1 });
    expect(await orders.get(customer, order.id)).toEqual(order);
    expect((await products.getAll(bought.map((p) => p.id))).map((p) => [p.stock, p.sold])).toEqual([[8, 2], [7, 3]]);
    expect(await carts.lines(customer)).toEqual({});
  });
  test("keeps the price of the day", async () => {
    const { customer, bought, id } = await placed(1);
    await products.change(bought[0].id, 1, { price: 9999 });
    expect((await orders.get(customer, id)).lines[0].price).toBe(1000);
  });
  test("an empty cart", async () => {
    const { id } = await shop.customer();
    await expect(orders.place(id, "o")).rejects.toEqual(refused("EmptyCart"));
  });
  test("a product that is gone", async () => {
    const { customer } = await shopper();
    await carts.add(customer, "gone");
    await expect(orders.place(customer, "o")).rejects.toEqual(refused("NotFound", "gone"));
  });
  test("too little in stock changes nothing", async () => {
    const { customer, bought } = await shopper(1, 11);
    await expect(orders.place(customer, "o")).rejects.toEqual(refused("OutOfStock", "11 of .* were ordered and 10 are left"));
    await expect(orders.get(customer, "o")).rejects.toEqual(refused("NotFound"));
    expect((await products.get(bought[0].id)).stock).toBe(10);
    expect(Object.keys(await carts.lines(customer))).toHaveLength(2);
  });
  test("an id is used once", async () => {
    const { customer, id } = await placed();
    const p = await shop.product();
    await carts.add(customer, p.id);
    await expect(orders.place(customer, id)).rejects.toEqual(refused("Exists", id));
    expect((await products.get(p.id)).stock).toBe(10);
  });
  test("customers may use the same id", async () => {
    const [a, b] = [await shopper(1), await shopper(1)];
    await orders.place(a.customer, "same");
    await expect(orders.place(b.customer, "same")).resolves.toMatchObject({ customer: b.customer });
  });
  test("two customers and the last one in stock", async () => {
    const p = await shop.product({ stock: 1 });
    const buyers = [await shop.customer(), await shop.customer(), await shop.customer()];
    for (const b of buyers) await carts.add(b.id, p.id);
    let sold = 0;
    for (const b of buyers) sold += await orders.place(b.id, "o").then(() => 1, (e) => (expect(e).toEqual(refused("OutOfStock")), 0));
    expect(sold).toBe(1);
    expect((await products.get(p.id)).stock).toBe(0);
  });
  test("points are redeemed with it", async () => {
    const { customer } = await shopper(1);
    await customers.earn(customer, 300);
    const order = await orders.place(customer, "o", { redeem: 200 });
    expect(order.total).toBe(800);
    expect((await customers.get(customer)).points).toBe(100);
  });
  test("too few points change nothing", async () => {
    const { customer, bought } = await shopper(1);
    await expect(orders.place(customer, "o", { redeem: 200 })).rejects.toEqual(refused("TooFewPoints"));
    expect((await products.get(bought[0].id)).stock).toBe(10);
  });
  test("more points than it costs", async () => {
    const { customer } = await shopper(1);
    await expect(orders.place(customer, "o", { redeem: 1001 })).rejects.toEqual(refused("Invalid"));
  });
  test("twenty lines are one transaction", async () => {
    const { customer, order } = await placed(...Array.from({ length: 20 }, () => 1));
    expect((await orders.get(customer, order.id)).lines).toHaveLength(20);
  });
});

describe("tokens", () => {
  test("a repeated request is done once", async () => {
    const { customer, bought } = await shopper(2);
    const token = shop.name("token");
    const order = await orders.place(customer, "o", { token });
    await orders.submit(order, { token });
    expect((await products.get(bought[0].id)).stock).toBe(8);
  });
  test("without a token it is refused as a second order", async () => {
    const { customer } = await shopper(2);
    const order = await orders.place(customer, "o");
    await expect(orders.submit(order)).rejects.toEqual(refused("Exists"));
  });
  test("a token with another request is refused", async () => {
    const { customer } = await shopper(2);
    const token = shop.name("token");
    const order = await orders.place(customer, "o", { token });
    await expect(orders.submit({ ...order, total: 1 }, { token })).rejects.toMatchObject({ name: "IdempotentParameterMismatchException" });
  });
  test("a token of 37 letters is refused", async () => {
    const { customer } = await shopper(2);
    await expect(orders.place(customer, "o", { token: "t".repeat(37) })).rejects.toMatchObject({ name: "ValidationException" });
  });
  test("a request that failed may be repeated with its token", async () => {
    const { customer, bought } = await shopper(11);
    const token = shop.name("token");
    await expect(orders.place(customer, "o", { token })).rejects.toEqual(refused("OutOfStock"));
    await products.restock(bought[0].id, 5);
    await expect(orders.place(customer, "o", { token })).resolves.toMatchObject({ id: "o" });
  });
});

describe("states", () => {
  const pairs = states.flatMap((from) => states.map((to) => [from, to]));
  test.each(pairs.filter(([from, to]) => mayFollow(from, to)))("%s may become %s", async (from, to) => {
    const { customer, id } = await orderIn(from);
    const order = await orders.move(customer, id, to);
    expect(order.status).toBe(to);
    expect(order.history.at(-1)).toMatchObject({ from, to });
    expect(order.version).toBe(order.history.length + 1);
  });
  const refusedPairs = ["shipped", "cancelled"].flatMap((from) => states.filter((to) => to !== "placed" && !mayFollow(from, to)).map((to) => [from, to]));
  test.each(refusedPairs)("%s does not become %s", async (from, to) => {
    const { customer, id } = await orderIn(from);
    await expect(orders.move(customer, id, to)).rejects.toEqual(refused("Invalid", `${from} cannot be ${to}`));
  });
  test("an unknown state", async () => {
    const { customer, id } = await placed();
    await expect(orders.move(customer, id, "lost")).rejects.toEqual(refused("Invalid"));
  });
  test.each(["cancelled", "returned"])("what is %s is in stock again", async (to) => {
    const { bought } = await orderIn(to);
    expect(await products.get(bought[0].id, "stock", "sold")).toEqual({ stock: 10, sold: 0 });
  });
  test("of two changes at once one is made", async () => {
    const { customer, id } = await placed();
    const outcomes = await Promise.allSettled([orders.move(customer, id, "paid"), orders.move(customer, id, "cancelled")]);
    expect(outcomes.filter((o) => o.status === "fulfilled").length).toBeGreaterThanOrEqual(1);
    const order = await orders.get(customer, id);
    expect(order.history.length).toBe(order.version - 1);
  });
  test("an order that is unknown", async () => {
    await expect(orders.move("nobody", "nothing", "paid")).rejects.toEqual(refused("NotFound"));
  });
});

describe("lists", () => {
  let customer;
  const day = (n) => `2026-03-0${n}T12:00:00.000Z`;
  beforeAll(async () => {
    customer = (await shop.customer()).id;
    const p = await shop.product({ stock: 1000 });
    for (let n = 1; n <= 7; n++) {
      await carts.add(customer, p.id, n);
      const lines = (await carts.read(customer)).contents;
      await orders.submit({
        customer, id: `o${8 - n}`, status: "placed", total: n * 1000, placedAt: day(n), version: 1,
        lines: [{ product: p.id, title: p.title, price: p.price, quantity: lines[p.id] }],
      });
    }
    await orders.move(customer, "o7", "paid");
    await orders.move(customer, "o3", "paid");
    await orders.move(customer, "o4", "cancelled");
  });
  const totals = (page) => page.orders.map((o) => o.total / 1000);
  test("the newest order is the first", async () => {
    expect(totals(await orders.of(customer))).toEqual([7, 6, 5, 4, 3, 2, 1]);
  });
  test.each([
    ["since", { since: day(5) }, [7, 6, 5]],
    ["until, without that time", { until: day(3) }, [2, 1]],
    ["between, with both ends", { since: day(3), until: day(4) }, [4, 3]],
    ["paid", { status: "paid" }, [5, 1]],
    ["paid since", { status: "paid", since: day(2) }, [5]],
    ["none in a state", { status: "returned" }, []],
  ])("%s", async (_, options, want) => {
    expect(totals(await orders.of(customer, options))).toEqual(want);
  });
  test.each([1, 3, 7])("pages of %i", async (limit) => {
    const seen = [];
    let cursor;
    do {
      const page = await orders.of(customer, { limit, cursor });
      seen.push(...totals(page));
      cursor = page.cursor;
    } while (cursor);
    expect(seen).toEqual([7, 6, 5, 4, 3, 2, 1]);
  });
  test("another customer has none", async () => {
    expect((await orders.of("nobody")).orders).toEqual([]);
  });
  test.each([1, 50])("orders in a state, page by page of %i", async (limit) => {
    const found = [];
    for await (const o of orders.inState("placed", limit)) if (o.customer === customer) found.push(o);
    expect(found.map((o) => o.total / 1000)).toEqual([2, 3, 6, 7]);
  });
  test("the index has the attributes that it includes", async () => {
    for await (const o of orders.inState("cancelled")) {
      expect(Object.keys(o).sort()).toEqual(["customer", "id", "placedAt", "status", "total"]);
    }
  });
  test("an order with its products", async () => {
    const { customer: c, id } = await placed(2, 3);
    const { order, products: now } = await orders.withProducts(c, id);
    expect(order.id).toBe(id);
    expect(now.map((p) => p.stock).sort()).toEqual([7, 8]);
  });
  test("a product that is gone is undefined in it", async () => {
    const { customer: c, bought, id } = await placed(10);
    await products.remove(bought[0].id);
    expect((await orders.withProducts(c, id)).products).toEqual([undefined]);
  });
});
