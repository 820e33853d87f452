"use strict";

/** An error of the shop; its code is for the caller, its message for people. */
class ShopError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "ShopError";
    this.code = code;
  }
}
exports.ShopError = ShopError;

/** Returns a function that turns a failed condition into an error of the shop, and throws other errors again. */
exports.onFailedCondition = (code, message) => (error) => {
  if (error.name !== "ConditionalCheckFailedException") throw error;
  throw new ShopError(code, typeof message === "function" ? message(error) : message);
};
