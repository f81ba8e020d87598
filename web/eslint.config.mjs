// What the compiler does not see: hooks, promises that nobody awaits, objects whose content cannot be read off.
import js from "@eslint/js";
import reactHooks from "eslint-plugin-react-hooks";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

const PLAIN_OBJECTS = [
  {
    selector: ":matches(ObjectExpression, JSXSpreadAttribute) > SpreadElement > ObjectExpression",
    message: "Write the fields themselves instead of spreading a literal.",
  },
  {
    selector: "ArrayExpression > SpreadElement > ArrayExpression",
    message: "Write the entries themselves instead of spreading a literal.",
  },
  {
    selector: "ObjectExpression > SpreadElement > :matches(LogicalExpression, ConditionalExpression)",
    message: "Build the object in two steps: a conditional spread hides which fields it has.",
  },
  {
    selector: "JSXSpreadAttribute",
    message: "Name the properties: a spread hides what a component is given.",
  },
];

export default defineConfig(
  { ignores: ["dist", "journeys/output", "src/api/schema.d.mts"] },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  {
    files: ["{src,tests,journeys}/**/*.{ts,tsx}", "*.ts"],
    extends: [js.configs.recommended, tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    plugins: { "react-hooks": reactHooks },
    rules: {
      "react-hooks/rules-of-hooks": "error",
      "react-hooks/exhaustive-deps": "error",
      "no-restricted-syntax": ["error", ...PLAIN_OBJECTS],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
    },
  },
);
