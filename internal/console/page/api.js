// Requests to the endpoint. Numbers of items are strings in them, and stay exact.
import { batch } from "./html.js";
import { setClock } from "./clock.js";
import { keepSecret, sendOperation, sendSession } from "./send.js";
import { draft, person, session, writing, tableNames } from "./state.js";

/** An error that the endpoint or the console answers with. */
export class ApiError extends Error {
  constructor(code, message, reply) {
    super(message || code);
    this.code = code;
    this.reply = reply;
  }
}

const mode = () => (writing.value ? "write" : "read");

/** Operations that the endpoint does not have. */
const unknown = new Set();

/** Whether the endpoint has an operation, as far as that is known. AWS has none of ours. */
export const knows = (operation) => !unknown.has(operation) && !(session.value?.endpoint.aws && operation.startsWith("Stator."));

/**
 * Sends a request and returns the reply.
 * @param {string} operation such as "Query", or "Stator.Name" with its service
 * @param {object} input
 * @param {AbortSignal} [abort]
 */
export async function call(operation, input = {}, abort = undefined) {
  const target = operation.includes(".") ? operation : "DynamoDB_20120810." + operation;
  try {
    const sent = await sendOperation(target, JSON.stringify(input), mode(), abort);
    followClock(sent);
    return await readReply(sent.reply);
  } catch (err) {
    if (err.code === "UnknownOperationException") unknown.add(operation);
    throw err;
  }
}

const followClock = ({ reply, began, arrived }) => setClock(Number(reply.headers.get("X-Stator-Time")), began, arrived);

async function readReply(reply) {
  let body;
  try {
    body = await reply.json();
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new ApiError("Unreadable", `The console answered ${reply.status} without JSON. Is the server still running?`);
  }
  if (reply.ok) return body;
  const code = String(body.__type ?? "Error").replace(/^.*#/, "");
  if (code === "ConsoleSignedOut" && session.value) session.value = { ...session.value, signedIn: false };
  throw new ApiError(code, body.message ?? body.Message ?? "", body);
}

/** The capacity units of a reply. */
export function unitsOf(body) {
  const one = (c) => c?.CapacityUnits ?? 0;
  const used = body?.ConsumedCapacity;
  return Array.isArray(used) ? used.reduce((sum, c) => sum + one(c), 0) : one(used);
}

/** Reads who has signed in. */
export async function loadSession() {
  const sent = await sendSession("GET", mode());
  followClock(sent);
  session.value = await readReply(sent.reply);
}

/** Signs in with a key, or with the token of the command. */
export async function signIn(credentials) {
  const sent = await sendSession("POST", mode(), credentials);
  const { page, ...reply } = await readReply(sent.reply);
  keepSecret(page);
  batch(() => {
    if (session.value?.accessKey !== reply.accessKey) forget();
    session.value = reply;
  });
}

/** Forgets what somebody has seen and written, before somebody else signs in. */
function forget() {
  person.value++;
  writing.value = false;
  tableNames.value = null;
  shownReading = readings;
  draft.value = "";
  descriptions.clear();
}

export async function signOut() {
  const sent = await sendSession("DELETE", mode());
  const reply = await readReply(sent.reply);
  keepSecret("");
  batch(() => {
    forget();
    session.value = reply;
  });
}

let readings = 0, shownReading = 0; // of the names: how many have begun, and which of them is shown

/** Reads the names of all tables, some hundred at a time, for all views. They do not replace those of a later reading, or of somebody else. */
export async function loadTables() {
  const reading = ++readings, names = [];
  let from;
  do {
    const page = await call("ListTables", from ? { ExclusiveStartTableName: from } : {});
    names.push(...page.TableNames);
    from = page.LastEvaluatedTableName;
  } while (from);
  if (reading > shownReading) {
    shownReading = reading;
    tableNames.value = names;
  }
  return names;
}

const descriptions = new Map();

/** The description of a table. It is kept until refresh is true. */
export async function describe(table, refresh = false) {
  if (refresh || !descriptions.has(table)) {
    const asked = call("DescribeTable", { TableName: table }).then((reply) => reply.Table);
    descriptions.set(table, asked);
    asked.catch(() => descriptions.delete(table));
  }
  return descriptions.get(table);
}

const transient = ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "InternalServerError", "TransactionInProgressException"];
const maxAttempts = 9;

const readAgain = 200; // ms before a request to the past is repeated that has made no progress

/**
 * Sends a request again while the endpoint asks to slow down, for at most half a minute, and while it has not read all changes since
 * a second of the past, whose progress from 0 to 1 is given to onPast.
 */
export async function callPatiently(operation, input, abort, onPast) {
  for (let attempt = 1, progress = 0; ; attempt++) {
    try {
      return await call(operation, input, abort);
    } catch (err) {
      if (err.code === "PastNotReadException") {
        attempt = 0;
        const before = progress;
        progress = err.reply.Progress ?? 0;
        onPast?.(progress);
        if (progress > before) continue;
        await new Promise((resolve) => setTimeout(resolve, readAgain));
        abort?.throwIfAborted();
        continue;
      }
      if (!transient.includes(err.code) || attempt === maxAttempts) throw err;
      await new Promise((resolve) => setTimeout(resolve, 50 * 2 ** attempt * (0.5 + Math.random() / 2)));
      abort?.throwIfAborted();
    }
  }
}

/** Reads all pages of a Query or Scan. */
export async function* allPages(operation, input, abort) {
  const { Limit: _, ...rest } = input;
  for (let from; ; ) {
    const reply = await callPatiently(operation, { ...rest, ...(from && { ExclusiveStartKey: from }), ReturnConsumedCapacity: "TOTAL" }, abort);
    yield reply;
    from = reply.LastEvaluatedKey;
    if (!from) return;
  }
}
