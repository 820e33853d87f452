"use strict";

const { tables, timeToLive } = require("./src/tables.js");

module.exports = {
  tables,
  seed: async (server) => {
    for (const setting of timeToLive) await server.send("UpdateTimeToLive", setting);
  },
  args: ["--in-memory", "--test-clock"],
};
