"use strict";

module.exports = { preset: "stator-db", setupFilesAfterEnv: ["<rootDir>/setup/stator-expire.js"] };
