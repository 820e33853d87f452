// Reading a stream as it grows: all of its shards, each after its parent.
import { call } from "./api.js";
import { endpointNow } from "./clock.js";

const service = "DynamoDBStreams_20120810.";
const atOnce = 4; // shards that are read at a time
const idle = 1000; // milliseconds between two reads of a shard that has nothing new
const describeAgain = 2000; // after a shard has ended
const slowDown = ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "LimitExceededException", "InternalServerError", "EndpointUnreachable"];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Lists the streams of the endpoint, at most some hundred. */
export async function listStreams(signal) {
  const streams = [];
  let from;
  do {
    const page = await call(service + "ListStreams", from ? { ExclusiveStartStreamArn: from } : {}, signal);
    streams.push(...page.Streams);
    from = page.LastEvaluatedStreamArn;
  } while (from && streams.length < 500);
  return streams;
}

/**
 * Follows a stream. onRecords gets records in the order in which they arrive; those of one item are in their order.
 * start is "LATEST", "TRIM_HORIZON", or a time in milliseconds; a stream cannot be entered at a time, so what is older is read and left out.
 */
export class Tail {
  constructor({ arn, start, onRecords, onState }) {
    Object.assign(this, { arn, start, onRecords, onState });
    this.shards = new Map();
    this.state = { phase: "starting", shards: 0, read: 0, left: 0, reached: 0, catchingUp: false, lost: false, error: null };
    this.stopped = this.paused = false;
    this.abort = new AbortController();
    this.run();
  }

  tell(change) {
    this.state = { ...this.state, ...change };
    if (!this.stopped) this.onState(this.state);
  }

  stop() {
    this.stopped = true;
    this.abort.abort();
  }

  /** Stops reading. What is being read is read again later. */
  pause() {
    this.paused = true;
    this.abort.abort();
    this.tell({ phase: "paused" });
  }

  resume() {
    this.abort = new AbortController();
    this.paused = false;
    this.tell({ phase: "live" });
  }

  async run() {
    try {
      for (let first = true; !this.stopped; first = false) {
        if (!this.paused && (first || this.mustDescribe)) await this.describe(first);
        if (first) {
          await this.enterLatest();
          this.tell({ phase: this.paused ? "paused" : "live" });
          for (let i = 0; i < atOnce; i++) this.work();
        }
        await sleep(first ? 0 : describeAgain);
      }
    } catch (err) {
      this.fail(err);
    }
  }

  fail(err) {
    if (this.stopped || err.name === "AbortError") return;
    this.tell({ phase: "ended", error: err });
    this.stop();
  }

  /** Reads the list of shards, and adds those that are new. */
  async describe(first) {
    this.mustDescribe = false;
    let from, found = [], status;
    do {
      const page = (await call(service + "DescribeStream", { StreamArn: this.arn, ...(from && { ExclusiveStartShardId: from }) })).StreamDescription;
      found.push(...page.Shards);
      status = page.StreamStatus;
      from = page.LastEvaluatedShardId;
    } while (from);
    for (const s of found) {
      if (this.shards.has(s.ShardId)) continue;
      const latest = first && this.start === "LATEST";
      const closed = !!s.SequenceNumberRange?.EndingSequenceNumber;
      this.shards.set(s.ShardId, {
        id: s.ShardId, parent: s.ParentShardId, done: latest && closed, due: 0, failures: 0,
        type: latest ? "LATEST" : "TRIM_HORIZON", since: typeof this.start === "number" ? this.start : 0,
      });
    }
    const kept = new Set(found.map((s) => s.ShardId));
    for (const id of this.shards.keys()) if (!kept.has(id)) this.shards.delete(id); // older than 24 hours
    const open = [...this.shards.values()].filter((s) => !s.done).length;
    this.tell({ shards: open });
    if (open === 0) {
      if (status === "DISABLED") {
        this.tell({ phase: "ended" });
        this.stop();
      } else this.mustDescribe = true;
    }
  }

  /** Whether a shard may be read: its parent was read to its end, or is not kept any more. */
  isReady(shard) {
    return !shard.done && !shard.busy && (this.shards.get(shard.parent)?.done ?? true);
  }

  async work() {
    while (!this.stopped) {
      const now = performance.now();
      const next = this.paused ? undefined : [...this.shards.values()].filter((s) => s.due <= now && this.isReady(s)).sort((a, b) => a.due - b.due)[0];
      if (!next) {
        await sleep(100);
        continue;
      }
      next.busy = true;
      try {
        await this.read(next);
        next.failures = 0;
      } catch (err) {
        if (next.done) this.mustDescribe = true; // that of its children failed
        else this.recover(next, err);
      }
      next.busy = false;
    }
  }

  /** Enters the shards whose records count from now on, so that a change after the view says "live" is not missed. */
  async enterLatest() {
    const shards = [...this.shards.values()].filter((s) => !s.done && s.type === "LATEST");
    const next = async () => {
      for (let shard = shards.pop(); shard && !this.stopped && !this.paused; shard = shards.pop()) {
        try {
          await this.enter(shard, this.abort.signal);
        } catch (err) {
          this.recover(shard, err);
          if (shard.due > performance.now()) {
            shards.unshift(shard);
            await sleep(shard.due - performance.now());
          }
        }
      }
    };
    await Promise.all(Array.from({ length: atOnce }, next));
  }

  async enter(shard, signal) {
    const at = shard.last ? { ShardIteratorType: "AFTER_SEQUENCE_NUMBER", SequenceNumber: shard.last } : { ShardIteratorType: shard.type };
    const reply = await call(service + "GetShardIterator", { StreamArn: this.arn, ShardId: shard.id, ...at }, signal);
    shard.iterator = reply.ShardIterator;
    shard.entered ??= endpointNow();
  }

  async read(shard) {
    const { signal } = this.abort;
    if (!shard.iterator) await this.enter(shard, signal);
    const reply = await call(service + "GetRecords", { ShardIterator: shard.iterator }, signal);
    if (signal.aborted) return;
    shard.iterator = reply.NextShardIterator;
    const records = reply.Records;
    if (records.length) shard.last = records.at(-1).dynamodb.SequenceNumber;
    const wanted = records.filter((r) => r.dynamodb.ApproximateCreationDateTime * 1000 + 999 >= shard.since);
    shard.catchingUp = records.length > 0 && shard.type !== "LATEST" && endpointNow() / 1000 - records.at(-1).dynamodb.ApproximateCreationDateTime > 5;
    shard.due = records.length ? 0 : performance.now() + idle;
    if (wanted.length) this.onRecords(wanted);
    if (!shard.iterator) { // it was split or rolled over, and its children follow
      shard.done = true;
      shard.catchingUp = false;
    }
    const { read, left, reached, catchingUp } = this.state;
    const change = {
      read: read + wanted.length, left: left + records.length - wanted.length, reached: Math.max(reached, records.at(-1)?.dynamodb.ApproximateCreationDateTime ?? 0),
      catchingUp: [...this.shards.values()].some((s) => s.catchingUp), shards: [...this.shards.values()].filter((s) => !s.done).length,
    };
    if (records.length || shard.done || change.catchingUp !== catchingUp) this.tell(change); // before anything is awaited: other shards count, too
    if (shard.done) {
      await (this.describing ??= this.describe(false).finally(() => (this.describing = undefined))); // once for shards that end together
      if (![...this.shards.values()].some((s) => s.parent === shard.id)) this.mustDescribe = true; // they are not listed yet
    }
  }

  recover(shard, err) {
    if (err.name === "AbortError" || this.stopped) return;
    shard.failures++;
    switch (err.code) {
      case "ExpiredIteratorException": // after a long pause
        shard.iterator = undefined;
        if (!shard.last && shard.type === "LATEST") {
          shard.type = "TRIM_HORIZON";
          shard.since = shard.entered;
        }
        return;
      case "TrimmedDataAccessException":
        Object.assign(shard, { iterator: undefined, last: undefined, type: "TRIM_HORIZON" });
        this.tell({ lost: true });
        return;
    }
    if (!slowDown.includes(err.code) || shard.failures > 8) {
      this.fail(err);
      return;
    }
    shard.due = performance.now() + Math.min(30000, 200 * 2 ** shard.failures);
  }
}
