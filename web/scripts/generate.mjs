// Writes src/api/schema.d.mts from the server's OpenAPI document; with --check it only says whether it would change.
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const source = new URL("../../docs/openapi.json", import.meta.url);
const target = new URL("../src/api/schema.d.mts", import.meta.url);
const header = "// Generated from docs/openapi.json by `npm run generate`. Do not edit.\n\n";
const used = /^\/(my|chat|login|logout|health)(\/|$)/;

const document = JSON.parse(await readFile(source, "utf8"));
document.paths = Object.fromEntries(Object.entries(document.paths).filter(([path]) => used.test(path)));
for (const item of Object.values(document.paths)) {
  for (const operation of Object.values(item)) {
    // The page names operations by path and method. Names that repeat would not compile.
    delete operation.operationId;
    // Every refusal has the same body, which the page reads in one place.
    for (const status of Object.keys(operation.responses ?? {})) {
      if (status.startsWith("4") || status.startsWith("5")) delete operation.responses[status];
    }
  }
}

const text = header + astToString(await openapiTS(document, { emptyObjectsUnknown: true }));
if (process.argv.includes("--check")) {
  const present = await readFile(target, "utf8").catch(() => "");
  if (present !== text) {
    console.error("src/api/schema.d.mts is out of date: run `npm run generate` and commit it");
    process.exit(1);
  }
} else {
  await writeFile(target, text);
}
