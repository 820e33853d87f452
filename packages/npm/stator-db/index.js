"use strict";

const { spawn } = require("node:child_process");
const { randomBytes } = require("node:crypto");
const { existsSync } = require("node:fs");

/** The path of the binary: that of STATOR_BINARY, or that of the package for this platform. */
exports.binary = function binary() {
  if (process.env.STATOR_BINARY) return process.env.STATOR_BINARY;
  const name = `@stator-db/${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? "stator.exe" : "stator";
  try {
    const path = require.resolve(`${name}/${file}`);
    if (existsSync(path)) return path;
  } catch {
    // told below
  }
  throw new Error(
    `stator-db: ${name} is not installed, which has the binary for this platform\n` +
      "        install without --no-optional (--omit=optional), or set STATOR_BINARY to the path of a stator",
  );
};

/** An error of the API. */
class StatorError extends Error {
  constructor(operation, status, reply) {
    super(`${operation}: ${reply.message ?? reply.Message ?? `status ${status}`}`);
    this.name = String(reply.__type ?? "").split("#").pop() || "StatorError";
    this.status = status;
  }
}
exports.StatorError = StatorError;

/**
 * Sends one request of the API, such as send(url, "ListTables", {}). The server must not verify
 * signatures.
 */
exports.send = async function send(endpoint, operation, input = {}) {
  const prefix = operation.includes(".") ? "" : "DynamoDB_20120810.";
  const now = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
  const response = await fetch(endpoint, {
    method: "POST",
    headers: {
      "Content-Type": "application/x-amz-json-1.0",
      "X-Amz-Target": prefix + operation,
      "X-Amz-Date": now,
      Authorization: `AWS4-HMAC-SHA256 Credential=stator/${now.slice(0, 8)}/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0`,
    },
    body: JSON.stringify(input),
  });
  const text = await response.text();
  let reply;
  try {
    reply = JSON.parse(text || "{}");
  } catch {
    reply = { message: text };
  }
  if (!response.ok) throw new StatorError(operation, response.status, reply);
  return reply;
};

/** The environment by which AWS SDKs find an endpoint. */
exports.environment = function environment(endpoint) {
  return {
    AWS_ENDPOINT_URL_DYNAMODB: endpoint,
    AWS_ENDPOINT_URL_DYNAMODB_STREAMS: endpoint,
    AWS_REGION: process.env.AWS_REGION || "us-east-1",
    AWS_ACCESS_KEY_ID: process.env.AWS_ACCESS_KEY_ID || "stator",
    AWS_SECRET_ACCESS_KEY: process.env.AWS_SECRET_ACCESS_KEY || "stator",
  };
};

/** The URL of the server at an endpoint, which may be that of a fork: empty for the server itself. */
function serverOf(endpoint, fork) {
  const url = new URL(endpoint);
  let path = url.pathname.replace(/\/+$/, "");
  if (fork && path.toLowerCase().endsWith(`/fork/${fork}`)) path = path.slice(0, -`/fork/${fork}`.length);
  if (fork && url.hostname === `${fork}.localhost`) url.hostname = "localhost";
  return url.origin + path;
}

/** Makes a copy-on-write database of the one at an endpoint. */
exports.fork = async function fork(endpoint, name = `js-${randomBytes(8).toString("hex")}`) {
  const { Fork } = await exports.send(endpoint, "Stator.CreateFork", { ForkName: name });
  const server = serverOf(endpoint, Fork.ForkOf);
  return {
    name,
    endpoint: `${server}/fork/${name}`, // a path names one fork
    remove: async () => {
      try {
        await exports.send(server, "Stator.DeleteFork", { ForkName: name });
      } catch (error) {
        if (error.name !== "ResourceNotFoundException") throw error; // else it was dropped already, as it was not used
      }
    },
  };
};

const startTimeout = 30_000;

/** The servers that end with this process. */
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGTERM")));

/** The arguments of stator serve, with which forks are kept while a debugger waits. */
function keepingForks(args) {
  if (/(^| )--forks[ =]0( |$)/.test(args.join(" "))) return args; // which is not combined with flags about forks
  return ["--fork-idle", "24h", ...args];
}

/** Starts a server, by default in memory on a free port, which ends with this process. */
exports.start = function start(options = {}) {
  const { args = ["--in-memory"], port = 0, host = "127.0.0.1", env = process.env, onLog } = options;
  // The pipe to its standard input ends with this process, even if that is killed, and then the server stops.
  const child = spawn(exports.binary(), ["serve", "--stop-with-stdin", "--addr", `${host}:${port}`, ...keepingForks(args)], { env, stdio: ["pipe", "ignore", "pipe"] });
  const end = () => child.kill("SIGTERM");
  running.add(child);
  const exited = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
  exited.then(() => running.delete(child));
  return new Promise((resolve, reject) => {
    let log = "";
    const timer = setTimeout(() => fail(`it did not start within ${startTimeout / 1000} seconds`), startTimeout);
    const fail = (why) => {
      clearTimeout(timer);
      end();
      reject(new Error(`stator-db: cannot start stator: ${why}\n${log}`));
    };
    child.once("error", (error) => fail(error.message));
    exited.then(({ code, signal }) => fail(`it ended with ${signal ?? `exit code ${code}`}`));
    child.stderr.setEncoding("utf8").on("data", (text) => {
      onLog?.(text);
      if (log.length < 64 * 1024) log += text;
      const endpoint = /^stator listens on (\S+)\ndata is in /m.exec(log)?.[1];
      if (!endpoint) return;
      clearTimeout(timer);
      resolve({
        endpoint,
        pid: child.pid,
        environment: () => exports.environment(endpoint),
        fork: (name) => exports.fork(endpoint, name),
        send: (operation, input) => exports.send(endpoint, operation, input),
        stop: async () => {
          end();
          await exited;
        },
      });
    });
  });
};
