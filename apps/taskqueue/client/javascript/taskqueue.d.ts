// Code generated from the description of the API (openapi.json); DO NOT EDIT.

/** State of a task. COMPLETED, FAILED, DEAD and CANCELLED are final. */
export type Status = "PENDING" | "DELAYED" | "PROCESSING" | "COMPLETED" | "FAILED" | "DEAD" | "CANCELLED";

/** Type of an event in the history of a task. */
export type EventType = "SUBMITTED" | "PROCESSING" | "COMPLETED" | "FAILED" | "RETRY" | "RELEASED" | "EXPIRED" | "READY" | "DEAD" | "CANCELLED" | "REQUEUED";

/** A duration such as 1m30s, in the format of Go. */
export type Duration = string;

/** The current state of a task. */
export interface Task {
  /** UUID of version 7, which contains the time of creation */
  id: string;
  /** Queue of the task */
  queue: string;
  /** Type of the task, by which workers know what to do */
  type: string;
  /** Current state */
  status: Status;
  /** 0 to 9; 9 is the most urgent */
  priority: number;
  /** Any JSON value. Lists and submissions leave it out. */
  payload?: unknown;
  /** Hash of the payload */
  payloadHash?: string;
  /** Time of the submission */
  createdAt: string;
  /** Time of the last event */
  updatedAt?: string;
  /** Earliest time at which it may run */
  runAt?: string;
  /** If it still waits then, it becomes DEAD */
  until?: string;
  /** Worker that has it, or that ended it */
  worker?: string;
  /** Number of its slot in a queue with a limit of running tasks, from 1 */
  slot?: number;
  /** Attempts so far */
  attempts: number;
  /** Attempts before it becomes DEAD */
  maxAttempts?: number;
  /** Delay of the first retry; it doubles each time */
  backoff?: Duration;
  /** Number of its last event */
  seq: number;
  /** Reason of the last failure or of the cancellation */
  reason?: string;
  /** What the worker returned */
  result?: string;
  /** Idempotency key */
  key?: string;
  /** Second at which a finished task is deleted, since 1970 */
  expiresAt?: number;
}

/** A task that a worker has claimed. */
export interface Claim {
  /** UUID of version 7, which contains the time of creation */
  id: string;
  /** Queue of the task */
  queue: string;
  /** Type of the task, by which workers know what to do */
  type: string;
  /** Current state */
  status: Status;
  /** 0 to 9; 9 is the most urgent */
  priority: number;
  /** Any JSON value. Lists and submissions leave it out. */
  payload?: unknown;
  /** Hash of the payload */
  payloadHash?: string;
  /** Time of the submission */
  createdAt: string;
  /** Time of the last event */
  updatedAt?: string;
  /** Earliest time at which it may run */
  runAt?: string;
  /** If it still waits then, it becomes DEAD */
  until?: string;
  /** Worker that has it, or that ended it */
  worker?: string;
  /** Number of its slot in a queue with a limit of running tasks, from 1 */
  slot?: number;
  /** Attempts so far */
  attempts: number;
  /** Attempts before it becomes DEAD */
  maxAttempts?: number;
  /** Delay of the first retry; it doubles each time */
  backoff?: Duration;
  /** Number of its last event */
  seq: number;
  /** Reason of the last failure or of the cancellation */
  reason?: string;
  /** What the worker returned */
  result?: string;
  /** Idempotency key */
  key?: string;
  /** Second at which a finished task is deleted, since 1970 */
  expiresAt?: number;
  /** Token that is sent with each report about the task */
  claim: string;
  /** Maximum time between heartbeats */
  lease: Duration;
}

/** A task to be submitted. */
export interface Submission {
  /** Idempotency key: the same key gives the same task */
  key?: string;
  /** Type of the task */
  type: string;
  /** Any JSON value of up to 256 KB */
  payload?: unknown;
  /** 0 to 9; 9 is the most urgent */
  priority?: number;
  /** Delay before it may run, up to 30 days; excludes runAt */
  delay?: Duration;
  /** Earliest time at which it may run, up to 30 days ahead */
  runAt?: string;
  /** Attempts before it becomes DEAD */
  maxAttempts?: number;
  /** Delay of the first retry, up to 1h; it doubles each time, and defaults to 1s */
  backoff?: Duration;
}

/** A worker's request for a task. */
export interface ClaimRequest {
  /** Name of the worker, unique among running workers */
  worker: string;
  /** Time without heartbeats after which the task is given to another worker: 1s to 12h; defaults to 30s */
  lease?: Duration;
  /** How long to wait for a task, up to 1m; defaults to 0s. Requests for one named task do not wait. */
  wait?: Duration;
}

/** A worker's report about a task that it has claimed. */
export interface Report {
  /** Name of the worker */
  worker: string;
  /** Token of the claim */
  claim: string;
  /** Of complete: what the worker returns, up to 4 KB */
  result?: string;
  /** Of fail: the reason, up to 4 KB */
  reason?: string;
  /** Of fail: the task must not be retried */
  never?: boolean;
  /** Of fail: replaces the task's backoff */
  after?: Duration;
}

/** The outcome of a failed attempt. */
export interface FailReply {
  /** DELAYED if it is retried, otherwise FAILED or DEAD */
  status: Status;
}

/** A request to cancel a task. */
export interface Cancellation {
  /** Why, up to 4 KB */
  reason?: string;
}

/** One step in the history of a task. */
export interface Event {
  /** Number of the event, from 1 */
  seq: number;
  /** Type of the event */
  type: EventType;
  /** Time of the event */
  at: string;
  /** Worker of the event */
  worker?: string;
  /** Slot that a claim took */
  slot?: number;
  /** Reason of a failure or cancellation */
  reason?: string;
  /** Result of COMPLETED */
  result?: string;
  /** Earliest time at which the task may run */
  runAt?: string;
  /** If the task still waits then, it becomes DEAD */
  until?: string;
  /** Second at which a finished task is deleted, since 1970 */
  keep?: number;
  /** Of SUBMITTED: what never changes */
  born?: Born;
}

/** The properties of a task that never change. */
export interface Born {
  /** Queue */
  queue: string;
  /** Type */
  type: string;
  /** Priority */
  priority: number;
  /** Hash of the payload */
  payloadHash: string;
  /** Attempts before it becomes DEAD */
  maxAttempts: number;
  /** Delay of the first retry */
  backoff: Duration;
  /** Idempotency key */
  key?: string;
}

/** The events of a task, oldest first. */
export interface History {
  /** The events */
  events: Event[];
}

/** One page of a list of tasks. */
export interface Page {
  /** Tasks without payloads, newest first */
  tasks: Task[];
  /** Parameter of the next page; absent on the last one */
  next?: string;
}

/** A request to requeue or cancel all tasks of a selection, up to 200 at a time, newest first. */
export interface BulkRequest {
  /** Status of the tasks */
  status: Status;
  /** Only tasks of this queue */
  queue?: string;
  /** Only tasks of this type */
  type?: string;
  /** Only tasks whose reason contains this text, in any case */
  reason?: string;
  /** Only tasks that have not changed for this time */
  olderThan?: Duration;
  /** Where the previous request ended */
  next?: string;
  /** Change nothing */
  dryRun?: boolean;
  /** Of cancel: the reason that the cancelled tasks get */
  note?: string;
}

/** What a bulk request did. It is complete when there is no next. */
export interface BulkReply {
  /** Tasks that were selected */
  matched: number;
  /** Tasks that were changed; 0 in a dry run */
  changed: number;
  /** Tasks whose status changed meanwhile */
  skipped: number;
  /** The selected tasks as they are now, without payloads */
  tasks: Task[];
  /** Where the next request continues; absent at the end */
  next?: string;
}

/** Numbers of tasks by status. */
export interface Counts {
  /** The numbers of each queue */
  queues: QueueCounts[];
  /** The numbers of all queues, by status */
  total: Record<string, number>;
  /** Statuses with more tasks than were counted */
  more: Status[];
}

/** Numbers of tasks of one queue by status. */
export interface QueueCounts {
  /** Name of the queue */
  queue: string;
  /** The numbers, by status */
  tasks: Record<string, number>;
  /** Statuses with more tasks than were counted */
  more: Status[];
}

/** A queue and its limits. */
export interface Queue {
  /** Name of the queue */
  name: string;
  /** Limit of waiting tasks; further submissions are rejected */
  maxPending: number;
  /** Limit of running tasks; 0 means no limit */
  maxRunning: number;
  /** Whether no tasks are handed out */
  paused: boolean;
  /** Time of the last change of the limits */
  updatedAt?: string;
}

/** A queue as a server sees it. */
export interface QueueView {
  /** Name of the queue */
  name: string;
  /** Limit of waiting tasks; further submissions are rejected */
  maxPending: number;
  /** Limit of running tasks; 0 means no limit */
  maxRunning: number;
  /** Whether no tasks are handed out */
  paused: boolean;
  /** Time of the last change of the limits */
  updatedAt?: string;
  /** Tasks in PENDING */
  pending: number;
  /** Tasks in DELAYED that are due within ten minutes */
  delayed: number;
  /** Tasks in PROCESSING */
  running: number;
  /** Workers that wait at this server */
  waiting: number;
  /** Whether the table has more tasks than are counted here */
  more: boolean;
}

/** All queues, by name. */
export interface QueueList {
  /** The queues */
  queues: QueueView[];
}

/** The limits of a queue. Absent members get their defaults. */
export interface Limits {
  /** Limit of waiting tasks */
  maxPending?: number;
  /** Limit of running tasks; 0 means no limit */
  maxRunning?: number;
  /** Whether no tasks are handed out */
  paused?: boolean;
}

/** A worker and its tasks. */
export interface WorkerView {
  /** Name of the worker */
  id: string;
  /** When a server last noted it */
  seenAt: string;
  /** Its tasks, without payloads */
  tasks: Task[];
}

/** The workers that were seen lately. */
export interface WorkerList {
  /** The workers */
  workers: WorkerView[];
}

/** An error. */
export interface Fault {
  /** For programs, such as not_found, conflict, key_reused, queue_full, busy, too_large, bad_json, or bad_ and the name of a field */
  code: string;
  /** For people */
  message: string;
  /** Of a conflict: status, worker and attempts of the task */
  detail?: unknown;
}

/** The reply to a request that failed. */
export interface ErrorReply {
  error: Fault;
}

export interface Options {
  /** Ends the request. */
  signal?: AbortSignal;
}

/** An error that the server returned. */
export class TaskQueueError extends Error {
  status: number;
  code: string;
  detail: Record<string, unknown>;
}

/** An error of a task that must not be retried. */
export class Never extends Error {}

/** A client of the server at a URL. */
export class TaskQueue {
  constructor(url: string, options?: { patience?: number; timeout?: number; fetch?: typeof fetch });

  /** List all queues. */
  queues(options?: Options): Promise<QueueList>;

  /** Get a queue. */
  queue(queue: string, options?: Options): Promise<QueueView>;

  /** Set the limits of a queue, for all servers. */
  setQueue(queue: string, body: Limits, options?: Options): Promise<Queue>;

  /** List tasks of a queue. */
  queueTasks(queue: string, query?: { status?: Status; type?: string; reason?: string; olderThan?: Duration; limit?: number; next?: string; }, options?: Options): Promise<Page>;

  /** Submit a task. A submission that is repeated with the same key returns the same task. 409 key_reused: the key was used for other content. 429 queue_full: the queue has reached its limit of waiting tasks. */
  submit(queue: string, body: Submission, options?: Options): Promise<Task>;

  /** Claim the most urgent task of a queue. */
  claim(queue: string, body: ClaimRequest, options?: Options): Promise<Claim | null>;

  /** List tasks of all queues or of one. */
  tasks(query?: { queue?: string; status?: Status; type?: string; reason?: string; olderThan?: Duration; limit?: number; next?: string; }, options?: Options): Promise<Page>;

  /** Restart all dead or failed tasks of a selection. The request handles up to 200 tasks. Repeat it with next until the reply has none. */
  requeueAll(body: BulkRequest, options?: Options): Promise<BulkReply>;

  /** Cancel all tasks of a selection. The request handles up to 200 tasks. Repeat it with next until the reply has none. */
  cancelAll(body: BulkRequest, options?: Options): Promise<BulkReply>;

  /** Get a task. */
  task(id: string, options?: Options): Promise<Task>;

  /** Get the events of a task. */
  history(id: string, options?: Options): Promise<History>;

  /** Claim one task. 409 conflict: another worker has it; the error's detail has the worker. */
  claimTask(id: string, body: ClaimRequest, options?: Options): Promise<Claim>;

  /** Extend the lease of a claim. 409 conflict: the task no longer belongs to the worker. */
  heartbeat(id: string, body: Report, options?: Options): Promise<null>;

  /** Report that a task is done. */
  complete(id: string, body: Report, options?: Options): Promise<null>;

  /** Report that an attempt failed. */
  fail(id: string, body: Report, options?: Options): Promise<FailReply | null>;

  /** Give a task back; the attempt does not count. */
  release(id: string, body: Report, options?: Options): Promise<null>;

  /** Cancel a task. */
  cancel(id: string, body: Cancellation, options?: Options): Promise<Task>;

  /** Restart a dead or failed task. */
  requeue(id: string, options?: Options): Promise<Task>;

  /** Count tasks by status. The request reads the index: about 400 read units for 10,000 tasks. */
  counts(query?: { queue?: string; status?: Status[]; max?: number; }, options?: Options): Promise<Counts>;

  /** List the workers that were seen lately. */
  workers(options?: Options): Promise<WorkerList>;
}

export interface WorkerOptions {
  client: TaskQueue;
  queue: string;
  /** Unique among running workers. */
  id: string;
  /** Returns the result. After an error the task is retried later, unless the error is a Never. */
  handler: (task: Claim, context: { signal: AbortSignal }) => unknown;
  /** Seconds without heartbeats after which a task is given to another worker; defaults to 30. */
  lease?: number;
  /** Number of concurrent tasks; defaults to 1. */
  parallel?: number;
  log?: (message: string, detail: unknown) => void;
}

/** Claims tasks of a queue and executes them. */
export class Worker {
  constructor(options: WorkerOptions);
  /** Works until stop is called. Tasks in progress whose handlers then fail are released. */
  run(): Promise<void>;
  stop(): void;
}
