"use strict";

const { refused, shopForTests } = require("./support.js");

const shop = shopForTests();
const { products } = shop;
const titles = (page) => page.products.map((p) => p.title);

beforeAll(async () => {
  const tags = { 2: ["sale"], 3: ["sale", "new"], 5: ["new"] };
  for (let i = 1; i <= 9; i++) {
    await products.add({ id: `p${i}`, title: i % 2 ? `Odd ${i}` : `Even ${i}`, category: "nine", price: i * 100, stock: i, tags: tags[i] });
  }
  await products.add({ id: "other", title: "Other", category: "one", price: 300, stock: 0 });
});

test("a category is sorted by price", async () => {
  expect((await products.inCategory("nine")).products.map((p) => p.price)).toEqual([100, 200, 300, 400, 500, 600, 700, 800, 900]);
});
test("the dearest first", async () => {
  expect((await products.inCategory("nine", { descending: true, limit: 2 })).products.map((p) => p.price)).toEqual([900, 800]);
});
test("an unknown category is empty", async () => {
  expect(await products.inCategory("nothing")).toEqual({ products: [], scanned: 0, cursor: undefined });
});
test.each([
  ["from", { from: 800 }, [800, 900]],
  ["to", { to: 200 }, [100, 200]],
  ["between", { from: 300, to: 500 }, [300, 400, 500]],
  ["one price", { from: 300, to: 300 }, [300]],
  ["between two prices", { from: 301, to: 399 }, []],
  ["all", { from: 0, to: 10000 }, [100, 200, 300, 400, 500, 600, 700, 800, 900]],
])("prices: %s", async (_, range, want) => {
  expect((await products.inCategory("nine", range)).products.map((p) => p.price)).toEqual(want);
});
test("prices from high to low are refused", async () => {
  await expect(products.inCategory("nine", { from: 5, to: 1 })).rejects.toMatchObject({ name: "ValidationException" });
});
test.each([1, 2, 4, 8, 9, 10])("pages of %i have all products once", async (limit) => {
  const seen = [];
  let cursor;
  do {
    const page = await products.inCategory("nine", { limit, cursor });
    expect(page.products.length).toBeLessThanOrEqual(limit);
    seen.push(...page.products.map((p) => p.price));
    cursor = page.cursor;
  } while (cursor);
  expect(seen).toEqual([100, 200, 300, 400, 500, 600, 700, 800, 900]);
});
test("pages go backwards too", async () => {
  const first = await products.inCategory("nine", { limit: 4, descending: true });
  const second = await products.inCategory("nine", { limit: 4, descending: true, cursor: first.cursor });
  expect(second.products.map((p) => p.price)).toEqual([500, 400, 300, 200]);
});
test("the end of a page may be removed meanwhile", async () => {
  const category = shop.name("category");
  for (const price of [1, 2, 3]) await shop.product({ category, price, stock: 0 });
  const { products: page, cursor } = await products.inCategory(category, { limit: 2 });
  await products.remove(page[1].id);
  expect((await products.inCategory(category, { cursor })).products.map((p) => p.price)).toEqual([3]);
});
test("a product that is added meanwhile is on a later page", async () => {
  const category = shop.name("category");
  for (const price of [1, 2, 5]) await shop.product({ category, price });
  const { cursor } = await products.inCategory(category, { limit: 2 });
  await shop.product({ category, price: 4 });
  expect((await products.inCategory(category, { cursor })).products.map((p) => p.price)).toEqual([4, 5]);
});
test.each(["not base64 {", "e30x"])("the cursor %p is refused", async (cursor) => {
  await expect(products.inCategory("nine", { cursor })).rejects.toEqual(refused("BadCursor"));
});
test("a cursor of another category is refused", async () => {
  const { cursor } = await products.inCategory("nine", { limit: 1 });
  await expect(products.inCategory("one", { cursor })).rejects.toMatchObject({ name: "ValidationException" });
});
test("a limit of 0 is refused", async () => {
  await expect(products.inCategory("nine", { limit: 0 })).rejects.toMatchObject({ name: "ValidationException" });
});
test("a tag filters what was read", async () => {
  const page = await products.inCategory("nine", { tag: "sale" });
  expect(titles(page)).toEqual(["Even 2", "Odd 3"]);
  expect(page.scanned).toBe(9);
});
test("a page of a filter may be empty and have a cursor", async () => {
  const page = await products.inCategory("nine", { tag: "sale", limit: 1 });
  expect(page.products).toEqual([]);
  expect(page.cursor).toBeDefined();
});
test("the beginning of a title", async () => {
  expect(titles(await products.inCategory("nine", { title: "Ev" }))).toEqual(["Even 2", "Even 4", "Even 6", "Even 8"]);
});
test("a tag and a title", async () => {
  expect(titles(await products.inCategory("nine", { title: "Odd", tag: "new" }))).toEqual(["Odd 3", "Odd 5"]);
});
test("a count", async () => {
  expect(await products.countIn("nine")).toBe(9);
});

const nine = "category = :nine AND ";
test.each([
  ["a comparison", "stock > :n", { ":n": 7 }, undefined, ["p8", "p9"]],
  ["not", "NOT stock > :n", { ":n": 2 }, undefined, ["p1", "p2"]],
  ["or", "(stock = :a OR stock = :b)", { ":a": 1, ":b": 9 }, undefined, ["p1", "p9"]],
  ["in", "stock IN (:a, :b, :c)", { ":a": 1, ":b": 4, ":c": 70 }, undefined, ["p1", "p4"]],
  ["between", "stock BETWEEN :a AND :b", { ":a": 4, ":b": 5 }, undefined, ["p4", "p5"]],
  ["attribute_exists", "attribute_exists(tags)", {}, undefined, ["p2", "p3", "p5"]],
  ["attribute_not_exists", "attribute_not_exists(tags) AND stock < :n", { ":n": 4 }, undefined, ["p1"]],
  ["attribute_type", "attribute_type(tags, :t)", { ":t": "SS" }, undefined, ["p2", "p3", "p5"]],
  ["size of a set", "size(tags) > :n", { ":n": 1 }, undefined, ["p3"]],
  ["size of a string", "size(title) = :n", { ":n": 5 }, undefined, ["p1", "p3", "p5", "p7", "p9"]],
  ["contains of a string", "contains(title, :s)", { ":s": "en 6" }, undefined, ["p6"]],
  ["two attributes", "price = stock", {}, undefined, []],
  ["a name with a placeholder", "#s = :n", { ":n": 3 }, { "#s": "stock" }, ["p3"]],
])("a search with %s", async (_, filter, values, names, want) => {
  expect(await products.search(nine + filter, { ":nine": "nine", ...values }, names)).toEqual(want);
});
test.each([1, 3, 7])("a search with %i segments finds all", async (segments) => {
  expect(await products.search("category = :c", { ":c": "nine" }, undefined, segments)).toHaveLength(9);
});
