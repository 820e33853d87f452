"use strict";

const { ShopError } = require("./errors.js");

/** Cursors hide the key that a page ends at. */
exports.cursorOf = (key) => (key ? Buffer.from(JSON.stringify(key)).toString("base64url") : undefined);

exports.keyOf = (cursor) => {
  if (!cursor) return undefined;
  try {
    return JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch {
    throw new ShopError("BadCursor", "the cursor is not one of this shop");
  }
};
