"use strict";

const assert = require("node:assert/strict");
const stator = require("stator-db");

(async () => {
  const server = await stator.start();
  try {
    await server.send("CreateTable", require("./stator.config.js").tables[0]);
    const forks = await Promise.all([server.fork(), server.fork()]);
    await stator.send(forks[0].endpoint, "PutItem", { TableName: "Orders", Item: { id: { S: "1" } } });
    for (const [i, want] of [1, 0].entries()) {
      const { Count } = await stator.send(forks[i].endpoint, "Scan", { TableName: "Orders" });
      assert.equal(Count, want);
    }
    await assert.rejects(stator.send(forks[0].endpoint, "Scan", { TableName: "Nothing" }), { name: "ResourceNotFoundException" });
    await Promise.all(forks.map((f) => f.remove()));
    await assert.rejects(stator.send(forks[0].endpoint, "ListTables"));
  } finally {
    await server.stop();
  }
  await assert.rejects(stator.start({ args: ["--no-such-flag"] }), /unknown flag/);
})().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
