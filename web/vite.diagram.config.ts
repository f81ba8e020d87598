// Builds the frame that draws diagrams. Its origin is opaque, so a browser would load modules of the server only with a
// CORS header. One classic script needs none.
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

const SCRIPT = "src/frame/diagram.ts";
const PAGE = "src/frame/diagram.html";

/** The frame's page, with the name that the script has in this build. */
const page: Plugin = {
  name: "diagram-page",
  generateBundle(_, bundle) {
    const script = Object.values(bundle).find((file) => file.type === "chunk" && file.isEntry);
    if (script === undefined) throw new Error(`${SCRIPT} was not built`);
    const source = readFileSync(PAGE, "utf8").replace(`/${SCRIPT}`, `/${script.fileName}`);
    this.emitFile({ type: "asset", fileName: "frame/diagram.html", source });
  },
};

export default defineConfig({
  plugins: [page],
  build: {
    target: "es2022",
    // All of mermaid is in this file, and only a view with a diagram loads it.
    chunkSizeWarningLimit: 4_000,
    rollupOptions: {
      input: SCRIPT,
      output: { format: "iife", inlineDynamicImports: true, entryFileNames: "assets/[name]-[hash].js" },
    },
  },
});
