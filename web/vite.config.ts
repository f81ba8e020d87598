import { defineConfig } from "vitest/config";

/** The server's address while the page is served by Vite: `CODELAB_URL=http://127.0.0.1:8080 npm run dev`. */
const server = process.env["CODELAB_URL"] ?? "http://127.0.0.1:8080";
const served = ["/my", "/chat", "/login", "/logout", "/health", "/openapi.json", "/docs"];

export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2022",
    // Everything is a file of its own: the server's policy lets nothing inline run.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The frame for diagrams is built first and stands there already (vite.diagram.config.ts).
    emptyOutDir: false,
  },
  server: { proxy: Object.fromEntries(served.map((path) => [path, { target: server }])) },
  test: { dir: "tests", environment: "node" },
});
