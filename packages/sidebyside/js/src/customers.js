"use strict";

const { GetCommand, TransactWriteCommand, UpdateCommand } = require("@aws-sdk/lib-dynamodb");
const { ShopError, onFailedCondition } = require("./errors.js");

const TableName = "Customers";
const pk = (id) => `customer#${id}`;
const emailKey = (email) => `email#${email.trim().toLowerCase()}`;

/** Customers, each with an email address that no other one has. */
exports.Customers = class Customers {
  constructor(db) {
    this.db = db;
  }

  async register({ id, email, name }) {
    if (!/^\S+@\S+$/.test(email ?? "")) throw new ShopError("Invalid", "the email address has no @");
    const Item = { pk: pk(id), id, email: email.trim(), name, points: 0, addresses: {} };
    await this.#transact(
      [
        { Put: { TableName, Item, ConditionExpression: "attribute_not_exists(pk)" } },
        { Put: { TableName, Item: { pk: emailKey(email), id }, ConditionExpression: "attribute_not_exists(pk)" } },
      ],
      [`there is a customer ${id} already`, `the email address ${email} is in use`],
    );
    return Item;
  }

  async #transact(TransactItems, messages) {
    try {
      await this.db.send(new TransactWriteCommand({ TransactItems }));
    } catch (error) {
      const failed = (error.CancellationReasons ?? []).findIndex((r) => r.Code === "ConditionalCheckFailed");
      if (failed < 0) throw error;
      throw new ShopError("Refused", messages[failed]);
    }
  }

  async get(id) {
    const { Item } = await this.db.send(new GetCommand({ TableName, Key: { pk: pk(id) }, ConsistentRead: true }));
    if (!Item) throw new ShopError("NotFound", `there is no customer ${id}`);
    return Item;
  }

  async byEmail(email) {
    const { Item } = await this.db.send(new GetCommand({ TableName, Key: { pk: emailKey(email) }, ConsistentRead: true }));
    return Item ? this.get(Item.id) : undefined;
  }

  /** Changes the address, and frees the one of before. */
  async changeEmail(id, email) {
    const customer = await this.get(id);
    if (emailKey(email) === emailKey(customer.email)) return;
    await this.#transact(
      [
        {
          Update: {
            TableName,
            Key: { pk: pk(id) },
            UpdateExpression: "SET email = :new",
            ConditionExpression: "email = :old",
            ExpressionAttributeValues: { ":new": email, ":old": customer.email },
          },
        },
        { Put: { TableName, Item: { pk: emailKey(email), id }, ConditionExpression: "attribute_not_exists(pk)" } },
        { Delete: { TableName, Key: { pk: emailKey(customer.email) } } },
      ],
      [`customer ${id} has changed the address meanwhile`, `the email address ${email} is in use`],
    );
  }

  async #update(id, update, code = "NotFound", message = `there is no customer ${id}`) {
    const reply = await this.db
      .send(new UpdateCommand({ TableName, Key: { pk: pk(id) }, ConditionExpression: "attribute_exists(pk)", ReturnValues: "ALL_NEW", ...update }))
      .catch(onFailedCondition(code, message));
    return reply.Attributes;
  }

  async address(id, label, address) {
    const c = await this.#update(id, {
      UpdateExpression: "SET addresses.#l = :a",
      ExpressionAttributeNames: { "#l": label },
      ExpressionAttributeValues: { ":a": address },
    });
    return c.addresses;
  }

  async dropAddress(id, label) {
    const c = await this.#update(id, { UpdateExpression: "REMOVE addresses.#l", ExpressionAttributeNames: { "#l": label } });
    return c.addresses;
  }

  async wish(id, ...products) {
    const c = await this.#update(id, { UpdateExpression: "ADD wishes :p", ExpressionAttributeValues: { ":p": new Set(products) } });
    return [...c.wishes].sort();
  }

  async unwish(id, ...products) {
    const c = await this.#update(id, { UpdateExpression: "DELETE wishes :p", ExpressionAttributeValues: { ":p": new Set(products) } });
    return [...(c.wishes ?? [])].sort();
  }

  async earn(id, points) {
    const c = await this.#update(id, { UpdateExpression: "ADD points :p", ExpressionAttributeValues: { ":p": points } });
    return c.points;
  }

  async redeem(id, points) {
    const c = await this.#update(
      id,
      {
        UpdateExpression: "SET points = points - :p",
        ConditionExpression: "attribute_exists(pk) AND points >= :p",
        ExpressionAttributeValues: { ":p": points },
      },
      "TooFewPoints",
      `customer ${id} does not have ${points} points`,
    );
    return c.points;
  }

  async close(id) {
    const customer = await this.get(id);
    await this.#transact(
      [
        { Delete: { TableName, Key: { pk: pk(id) }, ConditionExpression: "points = :none", ExpressionAttributeValues: { ":none": 0 } } },
        { Delete: { TableName, Key: { pk: emailKey(customer.email) } } },
      ],
      [`customer ${id} has points left`],
    );
  }
};
