"use strict";

const { openShop } = require("../src/shop.js");

/** A shop for a test file, and names that are unique in it. */
exports.shopForTests = function shopForTests(options) {
  const shop = openShop(options);
  afterAll(() => shop.close());
  let n = 0;
  shop.name = (word) => `${word}-${++n}`;
  shop.product = async (changes = {}) => {
    const product = { id: shop.name("product"), title: "A lamp", category: shop.name("category"), price: 1000, stock: 10, ...changes };
    await shop.products.add(product);
    return product;
  };
  shop.customer = async (changes = {}) => {
    const id = shop.name("customer");
    return shop.customers.register({ id, email: `${id}@example.org`, name: "Ada", ...changes });
  };
  return shop;
};

/** Matches an error of the shop. */
exports.refused = (code, message) => expect.objectContaining({ code, ...(message ? { message: expect.stringMatching(message) } : {}) });
