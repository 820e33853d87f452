"use strict";

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
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
    const forked = await stator.fork(forks[0].endpoint);
    assert.equal((await stator.send(forked.endpoint, "Scan", { TableName: "Orders" })).Count, 1);
    await forked.remove();
    await assert.rejects(stator.send(forks[0].endpoint, "Scan", { TableName: "Nothing" }), { name: "ResourceNotFoundException" });
    await Promise.all(forks.map((f) => f.remove()));
    await assert.rejects(stator.send(forks[0].endpoint, "ListTables"));
    await forks[0].remove(); // it may be dropped already, as by --fork-idle
    const kept = await server.fork();
    const { Forks } = await server.send("Stator.ListForks");
    assert.ok(Date.parse(Forks[0].Expires) - Date.parse(Forks[0].Created) > 3_600_000); // while a debugger waits
    await kept.remove();
  } finally {
    await server.stop();
  }
  for (const args of [["--in-memory", "--forks", "0"], ["--in-memory", "--forks=0"]]) {
    const plain = await stator.start({ args });
    await assert.rejects(plain.fork(), { name: "ValidationException" });
    await plain.stop();
  }
  let warned = false;
  process.once("warning", (w) => (warned = w.name.startsWith("MaxListeners")));
  const many = await Promise.all(Array.from({ length: 12 }, () => stator.start()));
  await Promise.all(many.map((s) => s.stop()));
  assert.ok(!warned);

  // A server on the command line ends with the program, also if that is killed.
  const launcher = spawn(process.execPath, [require.resolve("stator-db/package.json").replace("package.json", "bin/stator-db.js"), "serve", "--in-memory", "--addr", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => launcher.stderr.on("end", resolve)); // the server has this pipe, too
  await new Promise((resolve) => launcher.stderr.on("data", (text) => /data is in/.test(text) && resolve()));
  launcher.kill("SIGKILL");
  await ended;

  const dynalite = require("stator-db/dynalite");
  assert.throws(() => dynalite({ path: "data" }), /does not support path/);
  const lite = dynalite({ createTableMs: 0 });
  for (const _ of [1, 2]) { // it can listen again
    await new Promise((resolve, reject) => lite.once("error", reject).listen(0, resolve));
    const { port } = lite.address();
    assert.deepEqual(await stator.send(`http://127.0.0.1:${port}`, "ListTables"), { TableNames: [] });
    assert.ok(lite.listening);
    await new Promise((resolve, reject) => lite.close((error) => (error ? reject(error) : resolve())));
    assert.ok(!lite.listening);
    await assert.rejects(fetch(`http://127.0.0.1:${port}`));
  }
  await new Promise((resolve) => lite.close((error) => resolve(assert.equal(error.code, "ERR_SERVER_NOT_RUNNING"))));
  lite.listen(0); // and is closed before it listens
  await new Promise((resolve) => lite.close(resolve));
  await assert.rejects(stator.start({ args: ["--no-such-flag"] }), /unknown flag/);
})().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
