"use strict";

const { GetCommand, QueryCommand, TransactGetCommand, TransactWriteCommand, UpdateCommand } = require("@aws-sdk/lib-dynamodb");
const { ShopError, onFailedCondition } = require("./errors.js");
const { cursorOf, keyOf } = require("./paging.js");

const TableName = "Orders";

/** The states that each state can be followed by. */
const following = {
  placed: ["paid", "cancelled"],
  paid: ["shipped", "cancelled"],
  shipped: ["delivered"],
  delivered: ["returned"],
  cancelled: [],
  returned: [],
};
exports.states = Object.keys(following);
exports.mayFollow = (from, to) => following[from]?.includes(to) ?? false;

/** Orders: placed in one transaction with the stock, the cart and the points. */
exports.Orders = class Orders {
  constructor(db, products, carts, now) {
    Object.assign(this, { db, products, carts, now });
  }

  /** Orders what is in the cart. A token makes a request that is repeated the same order. */
  async place(customer, id, { token, redeem = 0 } = {}) {
    const lines = await this.carts.lines(customer);
    const ids = Object.keys(lines).sort();
    if (!ids.length) throw new ShopError("EmptyCart", "the cart is empty");
    const products = await this.products.getAll(ids);
    if (products.length < ids.length) {
      throw new ShopError("NotFound", `there is no product ${ids.find((i) => !products.some((p) => p.id === i))}`);
    }
    const total = products.reduce((sum, p) => sum + p.price * lines[p.id], 0) - redeem;
    if (total < 0) throw new ShopError("Invalid", "more points than the order costs");
    const order = {
      customer, id, status: "placed", total, placedAt: new Date(this.now()).toISOString(), version: 1,
      lines: products.map((p) => ({ product: p.id, title: p.title, price: p.price, quantity: lines[p.id] })),
    };
    await this.submit(order, { token, redeem });
    return order;
  }

  async submit(order, { token, redeem = 0 } = {}) {
    const TransactItems = [
      { Put: { TableName, Item: order, ConditionExpression: "attribute_not_exists(id)" } },
      { Delete: { TableName: "Carts", Key: { customer: order.customer } } },
      ...order.lines.map(({ product, quantity }) => ({
        Update: {
          TableName: "Products",
          Key: { id: product },
          UpdateExpression: "SET stock = stock - :q ADD sold :q",
          ConditionExpression: "stock >= :q",
          ExpressionAttributeValues: { ":q": quantity },
          ReturnValuesOnConditionCheckFailure: "ALL_OLD",
        },
      })),
    ];
    if (redeem) {
      TransactItems.push({
        Update: {
          TableName: "Customers",
          Key: { pk: `customer#${order.customer}` },
          UpdateExpression: "ADD points :minus",
          ConditionExpression: "points >= :p",
          ExpressionAttributeValues: { ":minus": -redeem, ":p": redeem },
        },
      });
    }
    try {
      await this.db.send(new TransactWriteCommand({ TransactItems, ClientRequestToken: token }));
    } catch (error) {
      const reasons = error.CancellationReasons ?? [];
      const failed = reasons.findIndex((r) => r.Code === "ConditionalCheckFailed");
      if (failed < 0) throw error;
      if (failed === 0) throw new ShopError("Exists", `there is an order ${order.id} already`);
      const line = order.lines[failed - 2];
      if (!line) throw new ShopError("TooFewPoints", `there are not ${redeem} points`);
      const left = reasons[failed].Item?.stock;
      throw new ShopError("OutOfStock", `${line.quantity} of ${line.product} were ordered and ${left?.N ?? left ?? 0} are left`);
    }
  }

  async get(customer, id) {
    const { Item } = await this.db.send(new GetCommand({ TableName, Key: { customer, id }, ConsistentRead: true }));
    if (!Item) throw new ShopError("NotFound", `there is no order ${id}`);
    return Item;
  }

  /** An order and the present state of its products, as of one moment. */
  async withProducts(customer, id) {
    const order = await this.get(customer, id);
    const { Responses } = await this.db.send(
      new TransactGetCommand({
        TransactItems: [
          { Get: { TableName, Key: { customer, id } } },
          ...order.lines.map((l) => ({ Get: { TableName: "Products", Key: { id: l.product }, ProjectionExpression: "id, stock" } })),
        ],
      }),
    );
    return { order: Responses[0].Item, products: Responses.slice(1).map((r) => r.Item) };
  }

  async move(customer, id, to) {
    const order = await this.get(customer, id);
    if (!exports.mayFollow(order.status, to)) throw new ShopError("Invalid", `an order that is ${order.status} cannot be ${to}`);
    const change = {
      TableName,
      Key: { customer, id },
      UpdateExpression: "SET #s = :to, version = version + :one, history = list_append(if_not_exists(history, :none), :h)",
      ConditionExpression: "#s = :from AND version = :version",
      ExpressionAttributeNames: { "#s": "status" },
      ExpressionAttributeValues: {
        ":to": to, ":from": order.status, ":version": order.version, ":one": 1, ":none": [],
        ":h": [{ from: order.status, to, at: new Date(this.now()).toISOString() }],
      },
    };
    if (to === "cancelled" || to === "returned") return this.#giveBack(order, change);
    const { Attributes } = await this.db
      .send(new UpdateCommand({ ...change, ReturnValues: "ALL_NEW" }))
      .catch(onFailedCondition("Conflict", `order ${id} was changed meanwhile`));
    return Attributes;
  }

  /** Puts what was ordered into stock again, together with a change of the order. */
  async #giveBack(order, change) {
    await this.db.send(
      new TransactWriteCommand({
        TransactItems: [
          { Update: change },
          ...order.lines.map(({ product, quantity }) => ({
            Update: {
              TableName: "Products",
              Key: { id: product },
              UpdateExpression: "ADD stock :q, sold :minus",
              ExpressionAttributeValues: { ":q": quantity, ":minus": -quantity },
            },
          })),
        ],
      }),
    );
    return this.get(order.customer, order.id);
  }

  /** A page of the orders of a customer, the newest first. */
  async of(customer, { since, until, status, limit, cursor } = {}) {
    const values = { ":c": customer };
    let condition = "customer = :c";
    if (since && until) condition += " AND placedAt BETWEEN :since AND :until";
    else if (since) condition += " AND placedAt >= :since";
    else if (until) condition += " AND placedAt < :until";
    if (since) values[":since"] = since;
    if (until) values[":until"] = until;
    if (status) values[":s"] = status;
    const reply = await this.db.send(
      new QueryCommand({
        TableName, IndexName: "by-date", KeyConditionExpression: condition, ScanIndexForward: false, ConsistentRead: true,
        ...(status ? { FilterExpression: "#s = :s", ExpressionAttributeNames: { "#s": "status" } } : {}),
        ExpressionAttributeValues: values, Limit: limit, ExclusiveStartKey: keyOf(cursor),
      }),
    );
    return { orders: reply.Items, cursor: cursorOf(reply.LastEvaluatedKey) };
  }

  /** All orders in a state, the oldest first, page by page. */
  async *inState(status, limit) {
    let ExclusiveStartKey;
    do {
      const reply = await this.db.send(
        new QueryCommand({
          TableName, IndexName: "by-status", KeyConditionExpression: "#s = :s", Limit: limit, ExclusiveStartKey,
          ExpressionAttributeNames: { "#s": "status" }, ExpressionAttributeValues: { ":s": status },
        }),
      );
      yield* reply.Items;
      ExclusiveStartKey = reply.LastEvaluatedKey;
    } while (ExclusiveStartKey);
  }
};
