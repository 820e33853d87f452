"use strict";

const { resolve } = require("node:path");

module.exports = {
  globalSetup: resolve(__dirname, "jest/global-setup.js"),
  globalTeardown: resolve(__dirname, "jest/global-teardown.js"),
  testEnvironment: resolve(__dirname, "jest/environment.js"),
};
