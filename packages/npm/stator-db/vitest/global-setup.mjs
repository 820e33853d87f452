import config from "../config.js";

/** Starts the server of a run, and returns what stops it. */
export default async function setUp(project) {
  const root = project?.config?.root ?? project?.vitest?.config?.root ?? process.cwd();
  const server = await config.startRun(root);
  return () => server.stop();
}
