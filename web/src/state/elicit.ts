// Questions of MCP servers: the fields that a server asks for, and the answer that is sent for them.

export interface AskedField {
  name: string;
  /** What the server calls it. */
  label: string;
  hint: string;
  kind: "text" | "number" | "integer" | "boolean" | "choice" | "json";
  choices: readonly Choice[];
  isRequired: boolean;
  /** What the field holds at first. */
  initial: string;
}

export interface Choice {
  value: unknown;
  label: string;
}

/** Who sends this gives the server no answer. */
export const DECLINE = "/decline";
/** Sent where only an agreement is asked for. */
export const AGREE = "ok";

type Schema = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const textOf = (value: unknown) => (typeof value === "string" ? value : "");

export function fieldsOf(schema: Schema): AskedField[] {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required: readonly unknown[] = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(properties).map(([name, field]) => {
    const described = isObject(field) ? field : {};
    const choices = choicesOf(described);
    return {
      name,
      label: textOf(described["title"]) || name,
      hint: textOf(described["description"]),
      kind: choices.length > 0 ? "choice" : kindOf(described["type"]),
      choices,
      isRequired: required.includes(name),
      initial: initialOf(described["default"]),
    };
  });
}

function kindOf(type: unknown): AskedField["kind"] {
  if (type === "number" || type === "integer" || type === "boolean") return type;
  return type === "string" || type === undefined ? "text" : "json";
}

/** The values that a field may have, in either spelling of JSON Schema. */
function choicesOf(field: Schema): Choice[] {
  const plain: readonly unknown[] = Array.isArray(field["enum"]) ? field["enum"] : [];
  if (plain.length > 0) {
    const names: readonly unknown[] = Array.isArray(field["enumNames"]) ? field["enumNames"] : [];
    return plain.map((value, at) => ({ value, label: textOf(names[at]) || initialOf(value) }));
  }
  const titled: readonly unknown[] = Array.isArray(field["oneOf"]) ? field["oneOf"] : [];
  return titled
    .filter(isObject)
    .filter((choice) => "const" in choice)
    .map((choice) => ({ value: choice["const"], label: textOf(choice["title"]) || initialOf(choice["const"]) }));
}

function initialOf(value: unknown): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What is sent for the filled fields; nothing while a field is missing or does not fit. */
export function answerOf(fields: readonly AskedField[], values: Readonly<Record<string, string>>): string | undefined {
  const given: [string, unknown][] = [];
  for (const field of fields) {
    const written = values[field.name] ?? "";
    // A box without a mark is an answer too.
    if (written === "" && field.kind !== "boolean") {
      if (field.isRequired) return undefined;
      continue;
    }
    const value = valueOf(field, written);
    if (value === undefined) return undefined;
    given.push([field.name, value]);
  }
  return JSON.stringify(Object.fromEntries(given));
}

function valueOf(field: AskedField, written: string): unknown {
  switch (field.kind) {
    case "text":
      return written;
    case "boolean":
      return written === "true";
    case "choice":
      return field.choices.find((choice) => initialOf(choice.value) === written)?.value;
    case "number":
    case "integer": {
      const number = Number(written);
      const fits = field.kind === "integer" ? Number.isSafeInteger(number) : Number.isFinite(number);
      return written.trim() !== "" && fits ? number : undefined;
    }
    case "json":
      try {
        return JSON.parse(written) as unknown;
      } catch {
        return undefined;
      }
  }
}

export const choiceText = (choice: Choice) => initialOf(choice.value);
