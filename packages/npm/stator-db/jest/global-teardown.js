"use strict";

module.exports = async function tearDown() {
  await globalThis.__STATOR__?.stop();
};
