"use strict";

const { EventEmitter } = require("node:events");
const { start } = require("./index.js");

/** What differs from the behaviour of stator, so that it cannot be left out silently. */
const unsupported = ["path", "ssl", "key", "cert", "ca"];

/** A server with the methods of dynalite's that test tools use. */
class Server extends EventEmitter {
  listening = false;
  #starting;
  #address = null;

  /** Takes listen(port), listen(port, host) and listen({ port, host }), with a callback as the last argument. */
  listen(...args) {
    if (this.#starting) throw Object.assign(new Error("Listen method has been called more than once without closing."), { code: "ERR_SERVER_ALREADY_LISTEN" });
    const callback = typeof args.at(-1) === "function" ? args.pop() : undefined;
    const { port = 0, host = "127.0.0.1" } = typeof args[0] === "object" && args[0] !== null ? args[0] : { port: args[0], host: args[1] };
    if (callback) this.once("listening", callback);
    const starting = (this.#starting = start({ port: Number(port), host, args: ["--in-memory"] }));
    starting.then(
      (server) => {
        if (this.#starting !== starting) return; // it was closed meanwhile
        this.listening = true;
        const { hostname, port } = new URL(server.endpoint);
        this.#address = { address: hostname, family: "IPv4", port: Number(port) };
        this.emit("listening");
      },
      (error) => {
        if (this.#starting !== starting) return;
        this.#starting = undefined;
        this.emit("error", error);
      },
    );
    return this;
  }

  address() {
    return this.#address;
  }

  close(callback) {
    const starting = this.#starting;
    if (!starting) {
      if (callback) process.nextTick(callback, Object.assign(new Error("Server is not running."), { code: "ERR_SERVER_NOT_RUNNING" }));
      return this;
    }
    this.#starting = undefined;
    this.listening = false;
    this.#address = null;
    starting
      .then((server) => server.stop())
      .then(() => {
        this.emit("close");
        callback?.();
      }, callback);
    return this;
  }
}

/**
 * In place of the function that the module dynalite exports: a server in memory, which listens when
 * it is told to. Tables are ready at once, so that createTableMs and the like have no effect.
 */
module.exports = function dynalite(options = {}) {
  const given = unsupported.filter((name) => options[name]);
  if (given.length) throw new Error(`stator-db/dynalite does not support ${given.join(", ")}: use stator serve`);
  return new Server();
};
