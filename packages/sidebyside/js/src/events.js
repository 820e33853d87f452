"use strict";

const { DescribeTableCommand } = require("@aws-sdk/client-dynamodb");
const { DescribeStreamCommand, GetRecordsCommand, GetShardIteratorCommand } = require("@aws-sdk/client-dynamodb-streams");
const { GetCommand, UpdateCommand } = require("@aws-sdk/lib-dynamodb");
const { unmarshall } = require("@aws-sdk/util-dynamodb");

/** Reads what happened to the orders from their stream. */
exports.Events = class Events {
  constructor(db, streams, table = "Orders") {
    Object.assign(this, { db, streams, table, positions: new Map() });
  }

  async arn() {
    const { Table } = await this.db.send(new DescribeTableCommand({ TableName: this.table }));
    return Table.LatestStreamArn;
  }

  async shards() {
    const StreamArn = await this.arn();
    const { StreamDescription } = await this.streams.send(new DescribeStreamCommand({ StreamArn }));
    return StreamDescription.Shards.map((s) => s.ShardId);
  }

  async #iterator(StreamArn, ShardId) {
    const at = this.positions.get(ShardId);
    const { ShardIterator } = await this.streams.send(
      new GetShardIteratorCommand(
        at
          ? { StreamArn, ShardId, ShardIteratorType: "AFTER_SEQUENCE_NUMBER", SequenceNumber: at }
          : { StreamArn, ShardId, ShardIteratorType: "TRIM_HORIZON" },
      ),
    );
    return ShardIterator;
  }

  /** Returns the records since the last call, of all shards. Within a shard they are in their order. */
  async next(Limit) {
    const StreamArn = await this.arn();
    const events = [];
    for (const shard of await this.shards()) {
      let ShardIterator = await this.#iterator(StreamArn, shard);
      for (let empty = 0; ShardIterator && empty < 2; ) {
        const reply = await this.streams.send(new GetRecordsCommand({ ShardIterator, Limit }));
        empty = reply.Records.length ? 0 : empty + 1;
        for (const record of reply.Records) {
          this.positions.set(shard, record.dynamodb.SequenceNumber);
          events.push(eventOf(record));
        }
        ShardIterator = reply.NextShardIterator;
      }
    }
    return events;
  }
};

function eventOf({ eventName, eventID, dynamodb, userIdentity }) {
  const image = (i) => (i ? unmarshall(i) : undefined);
  return {
    name: eventName, id: eventID, sequence: dynamodb.SequenceNumber, view: dynamodb.StreamViewType, userIdentity,
    key: unmarshall(dynamodb.Keys), before: image(dynamodb.OldImage), after: image(dynamodb.NewImage),
  };
}

/** The sales of each day, computed from the stream. An event that is read twice counts once. */
exports.Sales = class Sales {
  constructor(db) {
    this.db = db;
  }

  async apply(event) {
    const paid = (order) => order && ["paid", "shipped", "delivered"].includes(order.status);
    const change = (paid(event.after) ? event.after.total : 0) - (paid(event.before) ? event.before.total : 0);
    const count = Number(paid(event.after) ?? false) - Number(paid(event.before) ?? false);
    if (!change && !count) return false;
    const day = (event.after ?? event.before).placedAt.slice(0, 10);
    try {
      await this.db.send(
        new UpdateCommand({
          TableName: "Sales",
          Key: { day },
          UpdateExpression: "ADD revenue :t, orders :n, seen :id",
          ConditionExpression: "NOT contains(seen, :one)",
          ExpressionAttributeValues: { ":t": change, ":n": count, ":id": new Set([event.id]), ":one": event.id },
        }),
      );
      return true;
    } catch (error) {
      if (error.name !== "ConditionalCheckFailedException") throw error;
      return false;
    }
  }

  async of(day) {
    const { Item } = await this.db.send(new GetCommand({ TableName: "Sales", Key: { day }, ConsistentRead: true }));
    return { total: Item?.revenue ?? 0, orders: Item?.orders ?? 0 };
  }
};
