#!/usr/bin/env node
"use strict";

const { spawn } = require("node:child_process");
const { binary } = require("../index.js");

let path;
try {
  path = binary();
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
const args = process.argv.slice(2);
// A server ends with this process, also if this is killed: the pipe to its standard input ends then.
const piped = args[0] === "serve" && !args.includes("--stop-with-stdin");
if (piped) args.splice(1, 0, "--stop-with-stdin");
const child = spawn(path, args, { stdio: [piped ? "pipe" : "inherit", "inherit", "inherit"] });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`stator-db: cannot run ${path}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 1 : code));
