// Run by the Go test TestJavaScript, against a server at TASKQUEUE_URL.
import assert from "node:assert/strict";
import { Never, TaskQueue, TaskQueueError, Worker } from "./taskqueue.js";

const client = new TaskQueue(process.env.TASKQUEUE_URL);
const until = async (what, condition) => {
  for (let n = 0; n < 3000; n++) {
    const v = await condition();
    if (v) return v;
    await new Promise((done) => setTimeout(done, 10));
  }
  assert.fail(`${what} never happened`);
};
const ended = (id) =>
  until(`the end of ${id}`, async () => {
    const t = await client.task(id);
    return ["COMPLETED", "FAILED", "DEAD", "CANCELLED"].includes(t.status) && t;
  });

// Requests, one by one.
const one = await client.submit("js-api", { type: "send", payload: { to: "ä" }, key: "js-1", priority: 9 });
assert.equal((await client.submit("js-api", { type: "send", payload: { to: "ä" }, key: "js-1", priority: 9 })).id, one.id);
await assert.rejects(client.submit("js-api", { type: "other", key: "js-1" }), (e) => e instanceof TaskQueueError && e.status === 409 && e.code === "key_reused");
await assert.rejects(client.task("nonsense"), (e) => e.status === 400 && e.code === "bad_id");
assert.deepEqual((await client.task(one.id)).payload, { to: "ä" });
assert.equal(await client.claim("js-empty", { worker: "js" }), null);
const claim = await client.claim("js-api", { worker: "js", lease: "30s", wait: "20s" });
assert.equal(claim.id, one.id);
await client.heartbeat(claim.id, { worker: "js", claim: claim.claim });
await assert.rejects(client.claimTask(one.id, { worker: "other" }), (e) => e.code === "conflict" && e.detail.worker === "js");
assert.deepEqual((await client.tasks({ status: "PROCESSING", queue: "js-api" })).tasks.map((t) => [t.type, t.priority, t.attempts]), [["send", 9, 1]]);
await client.complete(claim.id, { worker: "js", claim: claim.claim, result: "sent" });
assert.equal((await client.task(one.id)).result, "sent");
assert.deepEqual((await client.history(one.id)).events.map((e) => e.type), ["SUBMITTED", "PROCESSING", "COMPLETED"]);
assert.equal((await client.counts({ queue: "js-api", status: ["COMPLETED", "DEAD"] })).total.COMPLETED, 1);
await client.setQueue("js-api", { maxRunning: 3 });
assert.equal((await client.queue("js-api")).maxRunning, 3);
assert.ok((await client.queues()).queues.some((q) => q.name === "js-api"));
assert.ok((await client.workers()).workers.some((w) => w.id === "js"));

// A worker.
const runs = {};
let waiting;
const worker = new Worker({
  client, queue: "js", id: "js-worker", lease: 2, parallel: 4,
  handler: async (task, { signal }) => {
    runs[task.type] = (runs[task.type] ?? 0) + 1;
    switch (task.type) {
      case "good": return { got: task.payload };
      case "again": if (task.attempts === 1) throw new Error("not yet"); return "second";
      case "never": throw new Never("hopeless");
      case "long": await new Promise((done) => setTimeout(done, 5000)); return "after heartbeats";
      case "cancelled":
      case "stopped":
        waiting = task.type;
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    }
  },
});
const working = worker.run();
const submit = async (type) => (await client.submit("js", { type, payload: 7, backoff: "10ms", maxAttempts: 3 })).id;
const ids = {};
for (const type of ["good", "again", "never", "long", "cancelled"]) ids[type] = await submit(type);
await until("the start of the task to be cancelled", () => waiting === "cancelled");
await client.cancel(ids.cancelled, { reason: "enough" });
const is = async (type, status, more) => {
  const t = await ended(ids[type]);
  assert.equal(t.status, status, type);
  for (const [name, value] of Object.entries(more)) assert.equal(t[name], value, `${name} of ${type}`);
};
await is("good", "COMPLETED", { result: '{"got":7}', attempts: 1 });
await is("again", "COMPLETED", { result: "second", attempts: 2 });
await is("never", "FAILED", { reason: "hopeless", attempts: 1 });
// Without heartbeats it would use up its attempts. A busy machine may lose one.
await is("long", "COMPLETED", { result: "after heartbeats" });
await is("cancelled", "CANCELLED", { reason: "enough" });
assert.equal(runs.good, 1);
const dry = await client.requeueAll({ status: "FAILED", queue: "js", reason: "HOPE", dryRun: true });
assert.deepEqual([dry.matched, dry.changed], [1, 0]);
ids.stopped = await submit("stopped");
await until("the start of the task to be released", () => waiting === "stopped");
worker.stop();
await working;
const events = (await client.history(ids.stopped)).events.map((e) => e.type);
assert.deepEqual(events.slice(0, 3), ["SUBMITTED", "PROCESSING", "RELEASED"]);
// The server may not know yet that the worker's other claims have ended, and give the task to one of them.
const released = await client.task(ids.stopped);
if (events.length === 3) assert.deepEqual([released.status, released.attempts], ["PENDING", 0]);
console.log("ok");
