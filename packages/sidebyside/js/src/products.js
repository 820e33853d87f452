"use strict";

const {
  BatchGetCommand, BatchWriteCommand, DeleteCommand, GetCommand, PutCommand, QueryCommand, ScanCommand, UpdateCommand,
} = require("@aws-sdk/lib-dynamodb");
const { ShopError, onFailedCondition } = require("./errors.js");
const { cursorOf, keyOf } = require("./paging.js");

const TableName = "Products";

function check(product) {
  const wrong = (what) => new ShopError("Invalid", what);
  if (typeof product.id !== "string" || !/^[a-z0-9-]{1,40}$/.test(product.id)) throw wrong("id must have 1 to 40 of a-z, 0-9 and -");
  if (!product.title?.trim()) throw wrong("title is missing");
  if (!product.category) throw wrong("category is missing");
  if (!Number.isInteger(product.price) || product.price < 0) throw wrong("price must be a whole number of cents");
  if (!Number.isInteger(product.stock ?? 0) || product.stock < 0) throw wrong("stock must be a whole number");
}

/** Products of the shop, their stock and their ratings. */
exports.Products = class Products {
  constructor(db) {
    this.db = db;
  }

  async add(product) {
    check(product);
    const { tags, ...rest } = product;
    const Item = { stock: 0, ...rest, ...(tags?.length ? { tags: new Set(tags) } : {}), version: 1 };
    await this.db
      .send(new PutCommand({ TableName, Item, ConditionExpression: "attribute_not_exists(id)" }))
      .catch(onFailedCondition("Exists", `there is a product ${product.id} already`));
    return Item;
  }

  async get(id, ...attributes) {
    const names = Object.fromEntries(attributes.map((a, i) => [`#a${i}`, a]));
    const { Item } = await this.db.send(
      new GetCommand({
        TableName,
        Key: { id },
        ConsistentRead: true,
        ...(attributes.length ? { ProjectionExpression: Object.keys(names).join(", "), ExpressionAttributeNames: names } : {}),
      }),
    );
    if (!Item) throw new ShopError("NotFound", `there is no product ${id}`);
    return Item;
  }

  /** Returns products in the order of their ids; those that do not exist are left out. */
  async getAll(ids) {
    const found = new Map();
    const unique = [...new Set(ids)];
    for (let i = 0; i < unique.length; i += 100) {
      let requests = { [TableName]: { Keys: unique.slice(i, i + 100).map((id) => ({ id })) } };
      while (Object.keys(requests ?? {}).length) {
        const { Responses, UnprocessedKeys } = await this.db.send(new BatchGetCommand({ RequestItems: requests }));
        for (const p of Responses[TableName]) found.set(p.id, p);
        requests = UnprocessedKeys;
      }
    }
    return ids.map((id) => found.get(id)).filter(Boolean);
  }

  /** Stores many products, whether they exist or not. */
  async load(products) {
    products.forEach(check);
    for (let i = 0; i < products.length; i += 25) {
      let requests = { [TableName]: products.slice(i, i + 25).map((p) => ({ PutRequest: { Item: { stock: 0, version: 1, ...p } } })) };
      while (Object.keys(requests ?? {}).length) {
        const { UnprocessedItems } = await this.db.send(new BatchWriteCommand({ RequestItems: requests }));
        requests = UnprocessedItems;
      }
    }
  }

  /** Changes attributes of a product that has a version; undefined removes one. */
  async change(id, version, changes) {
    const names = { "#version": "version" };
    const values = { ":version": version, ":next": version + 1 };
    const set = ["#version = :next"];
    const remove = [];
    Object.entries(changes).forEach(([name, value], i) => {
      if (name === "id" || name === "version") throw new ShopError("Invalid", `${name} cannot be changed`);
      names[`#n${i}`] = name;
      if (value === undefined) return remove.push(`#n${i}`);
      values[`:v${i}`] = value;
      set.push(`#n${i} = :v${i}`);
    });
    const { Attributes } = await this.db
      .send(
        new UpdateCommand({
          TableName,
          Key: { id },
          UpdateExpression: `SET ${set.join(", ")}${remove.length ? ` REMOVE ${remove.join(", ")}` : ""}`,
          ConditionExpression: "#version = :version",
          ExpressionAttributeNames: names,
          ExpressionAttributeValues: values,
          ReturnValues: "ALL_NEW",
          ReturnValuesOnConditionCheckFailure: "ALL_OLD",
        }),
      )
      .catch(
        onFailedCondition("Conflict", (error) =>
          error.Item ? `product ${id} has version ${error.Item.version.N ?? error.Item.version}, not ${version}` : `there is no product ${id}`,
        ),
      );
    return Attributes;
  }

  async #update(id, update, code, message) {
    const { Attributes } = await this.db
      .send(new UpdateCommand({ TableName, Key: { id }, ReturnValues: "ALL_NEW", ...update, ConditionExpression: update.ConditionExpression ?? "attribute_exists(id)" }))
      .catch(onFailedCondition(code ?? "NotFound", message ?? `there is no product ${id}`));
    return Attributes;
  }

  /** Adds to the stock, or takes from it, and returns what is left. */
  async restock(id, n) {
    const product = await this.#update(
      id,
      {
        UpdateExpression: "SET stock = stock + :n",
        ConditionExpression: "attribute_exists(id) AND stock >= :least",
        ExpressionAttributeValues: { ":n": n, ":least": n < 0 ? -n : 0 },
      },
      "OutOfStock",
      `there are not ${-n} of product ${id}`,
    );
    return product.stock;
  }

  async tag(id, ...tags) {
    const p = await this.#update(id, { UpdateExpression: "ADD tags :t", ExpressionAttributeValues: { ":t": new Set(tags) } });
    return [...p.tags].sort();
  }

  async untag(id, ...tags) {
    const p = await this.#update(id, { UpdateExpression: "DELETE tags :t", ExpressionAttributeValues: { ":t": new Set(tags) } });
    return [...(p.tags ?? [])].sort();
  }

  /** Appends a picture; the first one makes the list. */
  async picture(id, url) {
    const p = await this.#update(id, {
      UpdateExpression: "SET pictures = list_append(if_not_exists(pictures, :none), :p)",
      ExpressionAttributeValues: { ":none": [], ":p": [url] },
    });
    return p.pictures;
  }

  async dropPicture(id, n) {
    const p = await this.#update(id, { UpdateExpression: `REMOVE pictures[${n}]` });
    return p.pictures;
  }

  async rate(id, stars) {
    if (!Number.isInteger(stars) || stars < 1 || stars > 5) throw new ShopError("Invalid", "a rating has 1 to 5 stars");
    const p = await this.#update(id, {
      UpdateExpression: "ADD ratings :one, stars :s",
      ExpressionAttributeValues: { ":one": 1, ":s": stars },
    });
    return p.stars / p.ratings;
  }

  /** Sets a detail, such as weight, in the map of details. */
  async detail(id, name, value) {
    await this.#update(id, {
      UpdateExpression: "SET details = if_not_exists(details, :none)",
      ExpressionAttributeValues: { ":none": {} },
    });
    const p = await this.#update(id, {
      UpdateExpression: "SET details.#n = :v",
      ExpressionAttributeNames: { "#n": name },
      ExpressionAttributeValues: { ":v": value },
    });
    return p.details;
  }

  /** Removes a product of which nothing is in stock. */
  async remove(id) {
    const { Attributes } = await this.db
      .send(
        new DeleteCommand({
          TableName,
          Key: { id },
          ConditionExpression: "attribute_not_exists(id) OR stock = :zero",
          ExpressionAttributeValues: { ":zero": 0 },
          ReturnValues: "ALL_OLD",
        }),
      )
      .catch(onFailedCondition("InStock", `product ${id} is still in stock`));
    return Attributes !== undefined;
  }

  /** A page of the products of a category by their price. */
  async inCategory(category, { from, to, limit, cursor, descending = false, tag, title } = {}) {
    const values = { ":c": category };
    let condition = "category = :c";
    const filters = [];
    if (from !== undefined && to !== undefined) condition += " AND price BETWEEN :from AND :to";
    else if (from !== undefined) condition += " AND price >= :from";
    else if (to !== undefined) condition += " AND price <= :to";
    if (from !== undefined) values[":from"] = from;
    if (to !== undefined) values[":to"] = to;
    if (tag) {
      filters.push("contains(tags, :tag)");
      values[":tag"] = tag;
    }
    if (title) {
      filters.push("begins_with(title, :title)");
      values[":title"] = title;
    }
    const reply = await this.db.send(
      new QueryCommand({
        TableName,
        IndexName: "by-category",
        KeyConditionExpression: condition,
        ...(filters.length ? { FilterExpression: filters.join(" AND ") } : {}),
        ExpressionAttributeValues: values,
        ScanIndexForward: !descending,
        Limit: limit,
        ExclusiveStartKey: keyOf(cursor),
      }),
    );
    return { products: reply.Items, scanned: reply.ScannedCount, cursor: cursorOf(reply.LastEvaluatedKey) };
  }

  async countIn(category) {
    const { Count } = await this.db.send(
      new QueryCommand({
        TableName,
        IndexName: "by-category",
        KeyConditionExpression: "category = :c",
        ExpressionAttributeValues: { ":c": category },
        Select: "COUNT",
      }),
    );
    return Count;
  }

  /** The ids of all products for which a filter holds, read in parallel segments. */
  async search(filter, values, names, segments = 2) {
    const segment = async (Segment) => {
      const ids = [];
      let ExclusiveStartKey;
      do {
        const reply = await this.db.send(
          new ScanCommand({
            TableName, Segment, TotalSegments: segments, ExclusiveStartKey,
            FilterExpression: filter, ExpressionAttributeValues: values, ExpressionAttributeNames: names,
          }),
        );
        ids.push(...reply.Items.map((p) => p.id));
        ExclusiveStartKey = reply.LastEvaluatedKey;
      } while (ExclusiveStartKey);
      return ids;
    };
    return (await Promise.all(Array.from({ length: segments }, (_, i) => segment(i)))).flat().sort();
  }
};
