"use strict";

module.exports = async function stop() {
  const child = globalThis.__DYNAMODB_LOCAL__;
  await new Promise((resolve) => {
    child.once("exit", resolve);
    child.kill();
  });
};
