"use strict";

// The setup line: the only one that differs between databases.
const setup = require(`./setup/${process.env.DATABASE ?? "stator"}.js`);

// The sources need no compiler. The time is enough for a busy machine.
module.exports = { ...setup, transform: {}, testTimeout: 60_000 };
