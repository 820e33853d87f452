"use strict";

const { refused, shopForTests } = require("./support.js");

const shop = shopForTests();
const { customers } = shop;

test("a customer begins without points and addresses", async () => {
  const c = await customers.register({ id: "ada", email: "ada@example.org", name: "Ada" });
  expect(c).toMatchObject({ id: "ada", points: 0, addresses: {} });
  expect(await customers.get("ada")).toEqual(c);
});
test("an id is used once", async () => {
  const { id } = await shop.customer();
  await expect(shop.customer({ id, email: "new@example.org" })).rejects.toEqual(refused("Refused", "customer"));
  expect(await customers.byEmail("new@example.org")).toBeUndefined();
});
test("an email address is used once", async () => {
  const { email } = await shop.customer();
  const id = shop.name("second");
  await expect(shop.customer({ id, email })).rejects.toEqual(refused("Refused", "in use"));
  await expect(customers.get(id)).rejects.toEqual(refused("NotFound"));
});
test("case and blanks make no other address", async () => {
  const { email } = await shop.customer();
  await expect(shop.customer({ email: ` ${email.toUpperCase()}` })).rejects.toEqual(refused("Invalid"));
  await expect(shop.customer({ email: email.toUpperCase() })).rejects.toEqual(refused("Refused"));
});
test.each([undefined, "", "ada", "@", "a b@c"])("the email address %p is refused", async (email) => {
  await expect(shop.customer({ email })).rejects.toEqual(refused("Invalid", "@"));
});
test("of many with one address one is registered", async () => {
  const outcomes = await Promise.allSettled([1, 2, 3, 4].map(() => shop.customer({ email: "race@example.org" })));
  expect(outcomes.filter((o) => o.status === "fulfilled")).toHaveLength(1);
});
test("an unknown customer", async () => {
  await expect(customers.get("nobody")).rejects.toEqual(refused("NotFound", "nobody"));
});
test("a customer is found by the address in any case", async () => {
  const c = await shop.customer();
  expect((await customers.byEmail(c.email.toUpperCase())).id).toBe(c.id);
});

describe("another email address", () => {
  test("finds the customer", async () => {
    const { id, email } = await shop.customer();
    await customers.changeEmail(id, "other@example.org");
    expect((await customers.byEmail("other@example.org")).id).toBe(id);
    expect(await customers.byEmail(email)).toBeUndefined();
  });
  test("frees the one of before", async () => {
    const first = await shop.customer();
    await customers.changeEmail(first.id, "moved@example.org");
    await expect(shop.customer({ email: first.email })).resolves.toMatchObject({ email: first.email });
  });
  test("of somebody else is refused, and nothing changes", async () => {
    const [a, b] = [await shop.customer(), await shop.customer()];
    await expect(customers.changeEmail(a.id, b.email)).rejects.toEqual(refused("Refused", "in use"));
    expect((await customers.byEmail(a.email)).id).toBe(a.id);
    expect((await customers.byEmail(b.email)).id).toBe(b.id);
  });
  test("the same again changes nothing", async () => {
    const { id, email } = await shop.customer();
    await customers.changeEmail(id, email);
    expect((await customers.byEmail(email)).id).toBe(id);
  });
  test("twice at once is one of them", async () => {
    const { id, email } = await shop.customer();
    await Promise.allSettled(["x@example.org", "y@example.org"].map((e) => customers.changeEmail(id, e)));
    const now = (await customers.get(id)).email;
    expect(["x@example.org", "y@example.org"]).toContain(now);
    const found = await Promise.all(["x@example.org", "y@example.org", email].map((e) => customers.byEmail(e)));
    expect(found.filter(Boolean)).toHaveLength(1);
  });
});

describe("addresses", () => {
  test("have labels", async () => {
    const { id } = await shop.customer();
    await customers.address(id, "home", { street: "A", number: 1 });
    expect(await customers.address(id, "work", { street: "B" })).toEqual({ home: { street: "A", number: 1 }, work: { street: "B" } });
  });
  test("a label with odd letters is a name", async () => {
    const { id } = await shop.customer();
    expect(await customers.address(id, "a.b[0] #", { street: "A" })).toEqual({ "a.b[0] #": { street: "A" } });
  });
  test("are stored over", async () => {
    const { id } = await shop.customer();
    await customers.address(id, "home", { street: "A", floor: 2 });
    expect(await customers.address(id, "home", { street: "B" })).toEqual({ home: { street: "B" } });
  });
  test("are removed, also if they are missing", async () => {
    const { id } = await shop.customer();
    await customers.address(id, "home", {});
    expect(await customers.dropAddress(id, "work")).toEqual({ home: {} });
    expect(await customers.dropAddress(id, "home")).toEqual({});
  });
  test("of an unknown customer", async () => {
    await expect(customers.address("nobody", "home", {})).rejects.toEqual(refused("NotFound"));
  });
});

describe("wishes and points", () => {
  test("wishes are a set", async () => {
    const { id } = await shop.customer();
    await customers.wish(id, "b", "a");
    expect(await customers.wish(id, "c", "a")).toEqual(["a", "b", "c"]);
    expect(await customers.unwish(id, "a", "c")).toEqual(["b"]);
  });
  test("no wishes left is no attribute", async () => {
    const { id } = await shop.customer();
    await customers.wish(id, "a");
    expect(await customers.unwish(id, "a")).toEqual([]);
    expect(await customers.get(id)).not.toHaveProperty("wishes");
  });
  test("an empty set is refused", async () => {
    const { id } = await shop.customer();
    await expect(customers.wish(id)).rejects.toThrow();
  });
  test("points are earned, all of them", async () => {
    const { id } = await shop.customer();
    await Promise.all([10, 20, 30].map((p) => customers.earn(id, p)));
    expect((await customers.get(id)).points).toBe(60);
  });
  test("points are redeemed", async () => {
    const { id } = await shop.customer();
    await customers.earn(id, 100);
    expect(await customers.redeem(id, 60)).toBe(40);
  });
  test("not more than there are", async () => {
    const { id } = await shop.customer();
    await customers.earn(id, 100);
    await expect(customers.redeem(id, 101)).rejects.toEqual(refused("TooFewPoints", "101"));
  });
  test("not of an unknown customer", async () => {
    await expect(customers.redeem("nobody", 1)).rejects.toEqual(refused("TooFewPoints"));
  });
});

describe("closing an account", () => {
  test("frees the address", async () => {
    const { id, email } = await shop.customer();
    await customers.close(id);
    await expect(customers.get(id)).rejects.toEqual(refused("NotFound"));
    await expect(shop.customer({ id, email })).resolves.toMatchObject({ id });
  });
  test("is refused while there are points", async () => {
    const { id, email } = await shop.customer();
    await customers.earn(id, 1);
    await expect(customers.close(id)).rejects.toEqual(refused("Refused", "points"));
    expect((await customers.byEmail(email)).id).toBe(id);
  });
  test("of an unknown customer", async () => {
    await expect(customers.close("nobody")).rejects.toEqual(refused("NotFound"));
  });
});
