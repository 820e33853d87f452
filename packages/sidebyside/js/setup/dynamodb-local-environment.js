"use strict";

const { randomBytes } = require("node:crypto");
const { CreateTableCommand, DynamoDBClient, UpdateTimeToLiveCommand } = require("@aws-sdk/client-dynamodb");
const { TestEnvironment } = require("jest-environment-node");
const { tables, timeToLive } = require("../src/tables.js");

/**
 * An environment in which each test file has tables of its own: DynamoDB Local keeps the tables of
 * each access key apart, so that files can run at the same time.
 */
module.exports = class LocalEnvironment extends TestEnvironment {
  async setup() {
    await super.setup();
    const accessKeyId = `file${randomBytes(8).toString("hex")}`;
    this.global.process.env.AWS_ACCESS_KEY_ID = accessKeyId;
    const client = new DynamoDBClient({ credentials: { accessKeyId, secretAccessKey: "local" } });
    for (const table of tables) await client.send(new CreateTableCommand(table));
    for (const setting of timeToLive) await client.send(new UpdateTimeToLiveCommand(setting));
    client.destroy();
  }
};
