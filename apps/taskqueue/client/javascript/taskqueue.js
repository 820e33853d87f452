// Code generated from the description of the API (openapi.json); DO NOT EDIT.
//
// A client of the task queue for Node.js 18 and later, and for browsers. It needs no
// other packages. TaskQueue has a method for each request, and Worker executes tasks.

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** An error that the server returned. */
export class TaskQueueError extends Error {
  constructor(status, { code, message, detail = {} }) {
    super(message);
    this.name = "TaskQueueError";
    this.status = status;
    this.code = code;
    this.detail = detail;
  }
}

/** An error of a task that must not be retried. */
export class Never extends Error {}

/** A client of the server at a URL. */
export class TaskQueue {
  /**
   * @param {string} url such as http://127.0.0.1:8070
   * @param { {patience?: number, timeout?: number, fetch?: typeof fetch} } options patience is for how many
   *   milliseconds a request is retried while the server cannot be reached (30,000); timeout is how long
   *   one try may take (90,000).
   */
  constructor(url, { patience = 30_000, timeout = 90_000, fetch: send } = {}) {
    this.url = url.replace(/\/$/, "");
    this.patience = patience;
    this.timeout = timeout;
    this.send = send ?? ((...args) => globalThis.fetch(...args));
  }

  /**
   * List all queues.
   */
  queues(options = {}) {
    return this.request("GET", [], "/v1/queues", { ...options });
  }

  /**
   * Get a queue.
   */
  queue(queue, options = {}) {
    return this.request("GET", [queue], "/v1/queues/{queue}", { ...options });
  }

  /**
   * Set the limits of a queue, for all servers.
   */
  setQueue(queue, body, options = {}) {
    return this.request("PUT", [queue], "/v1/queues/{queue}", { body, ...options });
  }

  /**
   * List tasks of a queue.
   */
  queueTasks(queue, query = {}, options = {}) {
    return this.request("GET", [queue], "/v1/queues/{queue}/tasks", { query, ...options });
  }

  /**
   * Submit a task.
   * A submission that is repeated with the same key returns the same task. 409 key_reused: the key
   * was used for other content. 429 queue_full: the queue has reached its limit of waiting tasks.
   */
  submit(queue, body, options = {}) {
    return this.request("POST", [queue], "/v1/queues/{queue}/tasks", { body, ...options });
  }

  /**
   * Claim the most urgent task of a queue.
   */
  claim(queue, body, options = {}) {
    return this.request("POST", [queue], "/v1/queues/{queue}/claim", { body, ...options });
  }

  /**
   * List tasks of all queues or of one.
   */
  tasks(query = {}, options = {}) {
    return this.request("GET", [], "/v1/tasks", { query, ...options });
  }

  /**
   * Restart all dead or failed tasks of a selection.
   * The request handles up to 200 tasks. Repeat it with next until the reply has none.
   */
  requeueAll(body, options = {}) {
    return this.request("POST", [], "/v1/tasks/requeue", { body, ...options });
  }

  /**
   * Cancel all tasks of a selection.
   * The request handles up to 200 tasks. Repeat it with next until the reply has none.
   */
  cancelAll(body, options = {}) {
    return this.request("POST", [], "/v1/tasks/cancel", { body, ...options });
  }

  /**
   * Get a task.
   */
  task(id, options = {}) {
    return this.request("GET", [id], "/v1/tasks/{id}", { ...options });
  }

  /**
   * Get the events of a task.
   */
  history(id, options = {}) {
    return this.request("GET", [id], "/v1/tasks/{id}/history", { ...options });
  }

  /**
   * Claim one task.
   * 409 conflict: another worker has it; the error's detail has the worker.
   */
  claimTask(id, body, options = {}) {
    return this.request("POST", [id], "/v1/tasks/{id}/claim", { body, ...options });
  }

  /**
   * Extend the lease of a claim.
   * 409 conflict: the task no longer belongs to the worker.
   */
  heartbeat(id, body, options = {}) {
    return this.request("POST", [id], "/v1/tasks/{id}/heartbeat", { body, ...options });
  }

  /**
   * Report that a task is done.
   */
  complete(id, body, options = {}) {
    return this.request("POST", [id], "/v1/tasks/{id}/complete", { body, ...options });
  }

  /**
   * Report that an attempt failed.
   */
  fail(id, body, options = {}) {
    return this.request("POST", [id], "/v1/tasks/{id}/fail", { body, ...options });
  }

  /**
   * Give a task back; the attempt does not count.
   */
  release(id, body, options = {}) {
    return this.request("POST", [id], "/v1/tasks/{id}/release", { body, ...options });
  }

  /**
   * Cancel a task.
   */
  cancel(id, body, options = {}) {
    return this.request("POST", [id], "/v1/tasks/{id}/cancel", { body, ...options });
  }

  /**
   * Restart a dead or failed task.
   */
  requeue(id, options = {}) {
    return this.request("POST", [id], "/v1/tasks/{id}/requeue", { ...options });
  }

  /**
   * Count tasks by status.
   * The request reads the index: about 400 read units for 10,000 tasks.
   */
  counts(query = {}, options = {}) {
    return this.request("GET", [], "/v1/counts", { query, ...options });
  }

  /**
   * List the workers that were seen lately.
   */
  workers(options = {}) {
    return this.request("GET", [], "/v1/workers", { ...options });
  }

  /** Sends a request until there is a reply. The result is null for a reply without content. */
  async request(method, values, path, { body, query = {}, signal } = {}) {
    const parts = path.split(/\{[^}]*\}/);
    let target = this.url + parts.map((part, i) => part + (i < values.length ? encodeURIComponent(values[i]) : "")).join("");
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const v of Array.isArray(value) ? value : [value]) if (v !== undefined && v !== "") parameters.append(name, String(v));
    }
    if (parameters.size ?? [...parameters].length) target += "?" + parameters;
    // A submission without a key gets one, so that a retried request does not create the task twice.
    if (method === "POST" && path === "/v1/queues/{queue}/tasks" && !body.key) body = { ...body, key: globalThis.crypto.randomUUID() };
    const began = Date.now();
    for (let wait = 50; ; wait = Math.min(2 * wait, 2000)) {
      try {
        return await this.once(method, target, body, signal);
      } catch (error) {
        const refused = error instanceof TaskQueueError && error.status < 500;
        if (refused || signal?.aborted || Date.now() - began + wait > this.patience) throw error;
      }
      await sleep(wait / 2 + Math.random() * wait);
    }
  }

  async once(method, target, body, signal) {
    const limit = new AbortController();
    const abort = () => limit.abort(signal?.reason);
    const late = setTimeout(() => limit.abort(new Error("the task queue did not answer in time")), this.timeout);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    try {
      const answer = await this.send(target, {
        method,
        signal: limit.signal,
        headers: { "Content-Type": "application/json" },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      const text = await answer.text();
      if (answer.ok) return answer.status === 204 ? null : JSON.parse(text);
      let error = { code: "unknown", message: `${this.url} answers ${answer.status}; is it a task queue?` };
      try {
        error = JSON.parse(text).error ?? error;
      } catch {
        // not a reply of the task queue
      }
      throw new TaskQueueError(answer.status, error);
    } finally {
      clearTimeout(late);
      signal?.removeEventListener("abort", abort);
    }
  }
}

/** Claims tasks of a queue and executes them. */
export class Worker {
  /**
   * @param { {client: TaskQueue, queue: string, id: string, handler: Function, lease?: number, parallel?: number, log?: Function} } options
   *   id must be unique among running workers. handler(task, {signal}) returns the result; text, or a value
   *   that becomes JSON. After an error the task is retried later, unless the error is a Never. The signal is
   *   aborted when the handler must stop: the task was cancelled, the lease could not be extended, or the
   *   worker stops. lease is the number of seconds without heartbeats after which a task is given to another
   *   worker (30), and parallel the number of concurrent tasks (1).
   */
  constructor({ client, queue, id, handler, lease = 30, parallel = 1, log = () => {} }) {
    Object.assign(this, { client, queue, id, handler, lease, parallel, log });
    this.stopping = new AbortController();
  }

  /** Works until stop is called. Tasks in progress whose handlers then fail are released. */
  async run() {
    await Promise.all(Array.from({ length: this.parallel }, () => this.row()));
  }

  /** Ends run. */
  stop() {
    this.stopping.abort(new Error("the worker stops"));
  }

  async row() {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      const sent = Date.now();
      let claim;
      try {
        claim = await this.client.claim(this.queue, { worker: this.id, lease: `${this.lease}s`, wait: "20s" }, { signal });
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 400) throw error;
        this.log("claiming a task failed; retrying", error);
        await sleep(1000);
        continue;
      }
      if (claim && signal.aborted) await this.report(() => this.client.release(claim.id, { worker: this.id, claim: claim.claim }));
      else if (claim) await this.one(claim, sent);
    }
  }

  /** Executes a task and reports the result. */
  async one(claim, sent) {
    const token = { worker: this.id, claim: claim.claim };
    const lease = this.lease * 1000;
    if (Date.now() - sent > lease / 10) {
      // The claim was requested long ago: check that it still holds.
      sent = Date.now();
      try {
        await this.client.heartbeat(claim.id, token, { signal: AbortSignal.timeout(Math.ceil(lease / 3)) });
      } catch (error) {
        this.log("a task was claimed, but its lease may have expired", error);
        return;
      }
    }
    const doing = new AbortController();
    const stop = () => doing.abort(this.stopping.signal.reason);
    if (this.stopping.signal.aborted) stop();
    this.stopping.signal.addEventListener("abort", stop);
    let lost = false;
    const end = this.keep(claim, token, sent, () => {
      lost = true;
      doing.abort(new Error("the task no longer belongs to this worker"));
    });
    let report;
    try {
      const result = await this.handler(claim, { signal: doing.signal });
      const text = typeof result === "string" ? result : result === undefined ? "" : JSON.stringify(result);
      report = () => this.client.complete(claim.id, { ...token, result: text });
    } catch (error) {
      const reason = String(error?.message ?? error).slice(0, 1000);
      report = () => this.client.fail(claim.id, { ...token, reason, never: error instanceof Never });
      if (this.stopping.signal.aborted) report = () => this.client.release(claim.id, token);
    }
    end();
    this.stopping.signal.removeEventListener("abort", stop);
    if (lost) return this.log("abandoned a task that no longer belongs to this worker", claim.id);
    await this.report(report);
  }

  async report(send) {
    try {
      await send();
    } catch (error) {
      this.log("the result of a task could not be reported; the task is retried when its lease expires", error);
    }
  }

  /**
   * Sends heartbeats until the returned function is called. If none succeeds for nine tenths of the lease, the
   * task is abandoned before the server gives it to another worker.
   */
  keep(claim, token, sent, abandon) {
    const lease = this.lease * 1000;
    let ended = false;
    let over;
    const end = () => {
      ended = true;
      clearInterval(beats);
      clearTimeout(over);
    };
    const lose = () => {
      if (ended) return;
      end();
      abandon();
    };
    const beats = setInterval(async () => {
      const now = Date.now();
      try {
        await this.client.once("POST", `${this.client.url}/v1/tasks/${claim.id}/heartbeat`, token, AbortSignal.timeout(Math.ceil(lease / 3)));
        if (ended) return;
        clearTimeout(over);
        over = setTimeout(lose, now + lease * 0.9 - Date.now());
      } catch (error) {
        if (error instanceof TaskQueueError && error.status < 500) lose();
      }
    }, lease / 3);
    over = setTimeout(lose, sent + lease * 0.9 - Date.now());
    return end;
  }
}
