"use strict";

module.exports = {
  globalSetup: "<rootDir>/setup/dynamodb-local-start.js",
  globalTeardown: "<rootDir>/setup/dynamodb-local-stop.js",
  testEnvironment: "<rootDir>/setup/dynamodb-local-environment.js",
  setupFilesAfterEnv: ["<rootDir>/setup/dynamodb-local-expire.js"],
};
