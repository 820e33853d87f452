"use strict";

const { refused, shopForTests } = require("./support.js");

const shop = shopForTests();
const { products } = shop;

describe("adding", () => {
  test("a product has version 1 and no stock at first", async () => {
    const added = await products.add({ id: "lamp", title: "Lamp", category: "light", price: 100, stock: 0 });
    expect(added).toEqual({ id: "lamp", title: "Lamp", category: "light", price: 100, stock: 0, version: 1 });
    expect(await products.get("lamp")).toEqual(added);
  });
  test("an id is used once", async () => {
    const { id } = await shop.product({ title: "First" });
    await expect(shop.product({ id, title: "Second" })).rejects.toEqual(refused("Exists", id));
    expect((await products.get(id)).title).toBe("First");
  });
  test("tags are a set", async () => {
    const { id } = await shop.product({ tags: ["red", "blue", "red"] });
    expect([...(await products.get(id)).tags].sort()).toEqual(["blue", "red"]);
  });
  test("a product without tags has no set", async () => {
    const { id } = await shop.product({ tags: [] });
    expect(await products.get(id)).not.toHaveProperty("tags");
  });
  test("of two that are added at once one is there", async () => {
    const id = shop.name("race");
    const outcomes = await Promise.allSettled([1, 2, 3, 4].map((price) => shop.product({ id, price })));
    expect(outcomes.filter((o) => o.status === "fulfilled")).toHaveLength(1);
  });
  test.each([
    ["no id", { id: undefined }, "id"],
    ["an empty id", { id: "" }, "id"],
    ["an id with capitals", { id: "Lamp" }, "id"],
    ["an id of 41 letters", { id: "a".repeat(41) }, "id"],
    ["a title of blanks", { title: "  " }, "title"],
    ["no category", { category: undefined }, "category"],
    ["a negative price", { price: -1 }, "price"],
    ["a fraction of a cent", { price: 1.5 }, "price"],
    ["a price in words", { price: "ten" }, "price"],
    ["a negative stock", { stock: -1 }, "stock"],
  ])("%s is refused", async (_, changes, word) => {
    await expect(shop.product(changes)).rejects.toEqual(refused("Invalid", word));
  });
});

describe("reading", () => {
  test("an unknown product is an error", async () => {
    await expect(products.get("nothing")).rejects.toEqual(refused("NotFound"));
  });
  test("some attributes only", async () => {
    const { id } = await shop.product({ price: 250 });
    expect(await products.get(id, "price", "stock")).toEqual({ price: 250, stock: 10 });
  });
  test("attributes whose names are reserved words", async () => {
    const { id } = await shop.product({ size: "L", status: "new" });
    expect(await products.get(id, "size", "status")).toEqual({ size: "L", status: "new" });
  });
  test("attributes that are missing are left out", async () => {
    const { id } = await shop.product();
    expect(await products.get(id, "id", "colour")).toEqual({ id });
  });
  test("many have the order of their ids", async () => {
    const made = [await shop.product(), await shop.product(), await shop.product()];
    const ids = made.map((p) => p.id).reverse();
    expect((await products.getAll(ids)).map((p) => p.id)).toEqual(ids);
  });
  test("unknown ones are left out of many", async () => {
    const { id } = await shop.product();
    expect((await products.getAll(["nothing", id])).map((p) => p.id)).toEqual([id]);
  });
  test("one that is named twice is read twice", async () => {
    const { id } = await shop.product();
    expect(await products.getAll([id, id])).toHaveLength(2);
  });
  test("none are none", async () => {
    expect(await products.getAll([])).toEqual([]);
  });
  test("more than one batch", async () => {
    const category = shop.name("many");
    const all = Array.from({ length: 130 }, (_, i) => ({ id: `${category}-${i}`, title: `T${i}`, category, price: i, stock: 1 }));
    await products.load(all);
    const read = await products.getAll(all.map((p) => p.id));
    expect(read.map((p) => p.title)).toEqual(all.map((p) => p.title));
    expect(await products.countIn(category)).toBe(130);
  });
  test("loading stores over what exists", async () => {
    const p = await shop.product({ price: 1 });
    await products.load([{ ...p, price: 2 }]);
    expect((await products.get(p.id)).price).toBe(2);
  });
});

describe("changing", () => {
  test("the version grows", async () => {
    const { id } = await shop.product();
    expect(await products.change(id, 1, { price: 5 })).toMatchObject({ price: 5, version: 2 });
    expect(await products.change(id, 2, { price: 6 })).toMatchObject({ price: 6, version: 3 });
  });
  test("an old version is refused with the present one", async () => {
    const { id } = await shop.product();
    await products.change(id, 1, { price: 5 });
    await expect(products.change(id, 1, { price: 6 })).rejects.toEqual(refused("Conflict", "has version 2, not 1"));
    expect((await products.get(id)).price).toBe(5);
  });
  test("an unknown product is refused", async () => {
    await expect(products.change("nothing", 1, { price: 6 })).rejects.toEqual(refused("Conflict", "no product"));
  });
  test("undefined removes an attribute", async () => {
    const { id } = await shop.product({ colour: "red", size: "L" });
    expect(await products.change(id, 1, { colour: undefined, size: "M" })).toEqual(expect.not.objectContaining({ colour: "red" }));
    expect(await products.get(id, "size", "colour")).toEqual({ size: "M" });
  });
  test.each(["id", "version"])("%s cannot be changed", async (name) => {
    const { id } = await shop.product();
    await expect(products.change(id, 1, { [name]: "x" })).rejects.toEqual(refused("Invalid", name));
  });
  test("of many changes of one version one is made", async () => {
    const { id } = await shop.product();
    const outcomes = await Promise.allSettled([1, 2, 3, 4, 5].map((price) => products.change(id, 1, { price })));
    expect(outcomes.filter((o) => o.status === "fulfilled")).toHaveLength(1);
    expect((await products.get(id)).version).toBe(2);
  });
  test("another category moves it in the index", async () => {
    const p = await shop.product();
    const other = shop.name("category");
    await products.change(p.id, 1, { category: other });
    expect(await products.countIn(p.category)).toBe(0);
    expect(await products.countIn(other)).toBe(1);
  });
  test("without a category it is not in the index", async () => {
    const p = await shop.product();
    await products.change(p.id, 1, { category: undefined });
    expect(await products.countIn(p.category)).toBe(0);
    expect((await products.get(p.id)).title).toBe(p.title);
  });
  test("a key of an index has its type", async () => {
    const { id } = await shop.product();
    await expect(products.change(id, 1, { price: "free" })).rejects.toMatchObject({ name: "ValidationException" });
  });
});

describe("stock", () => {
  test("what comes is added", async () => {
    const { id } = await shop.product({ stock: 3 });
    expect(await products.restock(id, 4)).toBe(7);
  });
  test("what goes is taken", async () => {
    const { id } = await shop.product({ stock: 3 });
    expect(await products.restock(id, -3)).toBe(0);
  });
  test("more than there is is refused", async () => {
    const { id } = await shop.product({ stock: 3 });
    await expect(products.restock(id, -4)).rejects.toEqual(refused("OutOfStock", "not 4"));
    expect((await products.get(id)).stock).toBe(3);
  });
  test("of an unknown product", async () => {
    await expect(products.restock("nothing", 1)).rejects.toEqual(refused("OutOfStock"));
  });
  test("parallel buyers do not take more than there is", async () => {
    const { id } = await shop.product({ stock: 5 });
    const outcomes = await Promise.allSettled(Array.from({ length: 9 }, () => products.restock(id, -1)));
    expect(outcomes.filter((o) => o.status === "fulfilled")).toHaveLength(5);
    expect((await products.get(id)).stock).toBe(0);
  });
  test("parallel deliveries are all counted", async () => {
    const { id } = await shop.product({ stock: 0 });
    await Promise.all(Array.from({ length: 10 }, (_, i) => products.restock(id, i)));
    expect((await products.get(id)).stock).toBe(45);
  });
});

describe("tags, pictures, ratings, details", () => {
  test("a first tag makes the set", async () => {
    const { id } = await shop.product();
    expect(await products.tag(id, "new")).toEqual(["new"]);
  });
  test("a tag twice is there once", async () => {
    const { id } = await shop.product({ tags: ["a"] });
    expect(await products.tag(id, "a", "b")).toEqual(["a", "b"]);
  });
  test("tags are taken away, and unknown ones ignored", async () => {
    const { id } = await shop.product({ tags: ["a", "b"] });
    expect(await products.untag(id, "b", "z")).toEqual(["a"]);
  });
  test("the last tag takes the set away", async () => {
    const { id } = await shop.product({ tags: ["a"] });
    expect(await products.untag(id, "a")).toEqual([]);
    expect(await products.get(id)).not.toHaveProperty("tags");
  });
  test("tags of an unknown product", async () => {
    await expect(products.tag("nothing", "a")).rejects.toEqual(refused("NotFound"));
  });
  test("pictures keep their order", async () => {
    const { id } = await shop.product();
    for (const url of ["a", "b", "c"]) await products.picture(id, url);
    expect((await products.get(id)).pictures).toEqual(["a", "b", "c"]);
  });
  test("a picture in the middle is removed", async () => {
    const { id } = await shop.product({ pictures: ["a", "b", "c"] });
    expect(await products.dropPicture(id, 1)).toEqual(["a", "c"]);
  });
  test("a picture beyond the end is ignored", async () => {
    const { id } = await shop.product({ pictures: ["a"] });
    expect(await products.dropPicture(id, 7)).toEqual(["a"]);
  });
  test("a rating is an average", async () => {
    const { id } = await shop.product();
    expect(await products.rate(id, 5)).toBe(5);
    expect(await products.rate(id, 2)).toBe(3.5);
  });
  test.each([0, 6, 2.5, "five"])("%p stars are refused", async (stars) => {
    const { id } = await shop.product();
    await expect(products.rate(id, stars)).rejects.toEqual(refused("Invalid"));
  });
  test("parallel ratings are all counted", async () => {
    const { id } = await shop.product();
    await Promise.all([1, 2, 3, 4, 5].map((s) => products.rate(id, s)));
    expect(await products.get(id, "stars", "ratings")).toEqual({ stars: 15, ratings: 5 });
  });
  test("details are a map", async () => {
    const { id } = await shop.product();
    await products.detail(id, "weight", 1.5);
    expect(await products.detail(id, "size.inner", [1, 2])).toEqual({ weight: 1.5, "size.inner": [1, 2] });
  });
  test("a detail is stored over", async () => {
    const { id } = await shop.product({ details: { weight: 1, colour: "red" } });
    expect(await products.detail(id, "weight", 2)).toEqual({ weight: 2, colour: "red" });
  });
});

describe("removing", () => {
  test("a product that is in stock stays", async () => {
    const { id } = await shop.product({ stock: 1 });
    await expect(products.remove(id)).rejects.toEqual(refused("InStock"));
  });
  test("a product without stock goes", async () => {
    const { id, category } = await shop.product({ stock: 0 });
    expect(await products.remove(id)).toBe(true);
    await expect(products.get(id)).rejects.toEqual(refused("NotFound"));
    expect(await products.countIn(category)).toBe(0);
  });
  test("an unknown product is gone already", async () => {
    expect(await products.remove("nothing")).toBe(false);
  });
});
