"use strict";

const { startRun } = require("../config.js");

module.exports = async function setUp(_, project) {
  globalThis.__STATOR__ = await startRun(project?.rootDir ?? process.cwd());
};
