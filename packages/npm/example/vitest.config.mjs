import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["vitest/*.test.mjs"],
    globalSetup: ["stator-db/vitest/global-setup"],
    setupFiles: ["stator-db/vitest/setup"],
  },
});
