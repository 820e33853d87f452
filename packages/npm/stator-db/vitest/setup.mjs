import { afterAll } from "vitest";
import stator from "../index.js";

// Each test file has a fork of the database of the run.
const fork = await stator.fork(process.env.STATOR_ENDPOINT);
Object.assign(process.env, stator.environment(fork.endpoint));
afterAll(() => fork.remove());
