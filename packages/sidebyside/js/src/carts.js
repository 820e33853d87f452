"use strict";

const { DeleteCommand, GetCommand, UpdateCommand } = require("@aws-sdk/lib-dynamodb");
const { ShopError, onFailedCondition } = require("./errors.js");

const TableName = "Carts";
const LIFETIME = 24 * 60 * 60; // seconds
const LINES = 20;

/** Carts, which expire a day after their last change. */
exports.Carts = class Carts {
  constructor(db, now) {
    this.db = db;
    this.now = now;
  }

  #seconds() {
    return Math.floor(this.now() / 1000);
  }

  /** The lines of a cart; a cart that has expired is empty, deleted or not. */
  async lines(customer) {
    const cart = await this.read(customer);
    return cart && cart.expiresAt > this.#seconds() ? cart.contents : {};
  }

  async read(customer) {
    const { Item } = await this.db.send(new GetCommand({ TableName, Key: { customer }, ConsistentRead: true }));
    return Item;
  }

  /** Removes the lines of a cart that has expired, and makes one that is missing. */
  async #open(customer) {
    await this.db
      .send(
        new UpdateCommand({
          TableName,
          Key: { customer },
          UpdateExpression: "SET contents = :none, expiresAt = :e",
          ConditionExpression: "attribute_not_exists(customer) OR expiresAt <= :now",
          ExpressionAttributeValues: { ":none": {}, ":now": this.#seconds(), ":e": this.#seconds() + LIFETIME },
        }),
      )
      .catch((error) => {
        if (error.name !== "ConditionalCheckFailedException") throw error;
      });
  }

  async add(customer, product, quantity = 1) {
    if (!Number.isInteger(quantity) || quantity < 1) throw new ShopError("Invalid", "a quantity is a whole number from 1");
    await this.#open(customer);
    const { Attributes } = await this.db
      .send(
        new UpdateCommand({
          TableName,
          Key: { customer },
          UpdateExpression: "SET contents.#p = if_not_exists(contents.#p, :zero) + :q, expiresAt = :e",
          ConditionExpression: "attribute_exists(contents.#p) OR size(contents) < :max",
          ExpressionAttributeNames: { "#p": product },
          ExpressionAttributeValues: { ":zero": 0, ":q": quantity, ":max": LINES, ":e": this.#seconds() + LIFETIME },
          ReturnValues: "ALL_NEW",
        }),
      )
      .catch(onFailedCondition("CartFull", `a cart has at most ${LINES} lines`));
    return Attributes.contents;
  }

  /** Sets the quantity of a line; 0 removes it. */
  async set(customer, product, quantity) {
    const names = { "#p": product };
    const values = { ":e": this.#seconds() + LIFETIME };
    let update = "SET expiresAt = :e REMOVE contents.#p";
    if (quantity > 0) {
      update = "SET expiresAt = :e, contents.#p = :q";
      values[":q"] = quantity;
    }
    const { Attributes } = await this.db
      .send(
        new UpdateCommand({
          TableName, Key: { customer }, UpdateExpression: update, ReturnValues: "ALL_NEW",
          ConditionExpression: "attribute_exists(contents.#p)",
          ExpressionAttributeNames: names, ExpressionAttributeValues: values,
        }),
      )
      .catch(onFailedCondition("NotInCart", `${product} is not in the cart`));
    return Attributes.contents;
  }

  async clear(customer) {
    const { Attributes } = await this.db.send(new DeleteCommand({ TableName, Key: { customer }, ReturnValues: "ALL_OLD" }));
    return Object.keys(Attributes?.contents ?? {}).length;
  }

  /** Moves the lines of a visitor's cart to a customer's, adding quantities. */
  async merge(visitor, customer) {
    for (const [product, quantity] of Object.entries(await this.lines(visitor))) await this.add(customer, product, quantity);
    await this.clear(visitor);
    return this.lines(customer);
  }
};
