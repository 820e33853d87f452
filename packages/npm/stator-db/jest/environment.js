"use strict";

const { TestEnvironment } = require("jest-environment-node");
const { environment, fork } = require("../index.js");

/** An environment in which each test file has a fork of the database of the run. */
module.exports = class StatorEnvironment extends TestEnvironment {
  async setup() {
    await super.setup();
    this.fork = await fork(process.env.STATOR_ENDPOINT);
    Object.assign(this.global.process.env, environment(this.fork.endpoint));
  }

  async teardown() {
    try {
      await this.fork?.remove();
    } finally {
      await super.teardown();
    }
  }
};
