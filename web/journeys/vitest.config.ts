import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    dir: "journeys",
    include: ["**/*.journey.ts"],
    exclude: process.argv.includes("--dir") ? [] : ["**/measure/**", "**/screenshots/**", "**/record/**"],
    environment: "node",
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // The usual second is too short for a machine that does other things too.
    expect: { poll: { timeout: 20_000 } },
    // One browser at a time: the machine may be small.
    fileParallelism: false,
  },
});
