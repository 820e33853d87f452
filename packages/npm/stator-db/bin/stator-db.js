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
const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`stator-db: cannot run ${path}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 1 : code));
