"use strict";

/** Waits until what has expired is deleted, which DynamoDB Local does from time to time. */
globalThis.expire = async (deleted) => {
  for (let tries = 0; tries < 1000; tries++) {
    if (await deleted()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("nothing was deleted in 50 seconds");
};
