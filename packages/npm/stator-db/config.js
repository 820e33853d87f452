"use strict";

const { existsSync } = require("node:fs");
const { join } = require("node:path");
const { pathToFileURL } = require("node:url");
const { environment, start } = require("./index.js");

const names = ["stator.config.js", "stator.config.mjs", "stator.config.cjs"];

/** Reads stator.config.js of a folder; it may be missing. */
async function read(folder) {
  const name = names.find((n) => existsSync(join(folder, n)));
  if (!name) return {};
  const loaded = await import(pathToFileURL(join(folder, name)).href);
  const config = loaded.default ?? loaded;
  return typeof config === "function" ? await config() : config;
}

/**
 * Starts the server of a test run, with the tables and items that all test files begin with, and
 * tells the workers where it is.
 */
exports.startRun = async function startRun(folder) {
  const { tables = [], seed, args } = await read(folder);
  const server = await start(args ? { args } : {});
  try {
    Object.assign(process.env, environment(server.endpoint), { STATOR_ENDPOINT: server.endpoint });
    for (const table of tables) await server.send("CreateTable", table);
    await seed?.(server);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
};
