// What a session has seen of files, so that a write can be shown as a change and not only as new text.

interface Edit {
  old: string;
  new: string;
}

/** Remembers a file's content from a tool result. Partial reads are ignored. */
export function learnFiles(files: Map<string, string>, tool: string, args: Record<string, unknown>, result: unknown) {
  const path = args["path"];
  if (typeof path !== "string" || typeof result !== "object" || result === null) return;
  const told = result as Record<string, unknown>;
  if (told["success"] !== true) return;
  if (tool === "read_file") {
    const isWhole = args["start_line"] == null && args["end_line"] == null && told["truncated"] !== true;
    if (isWhole && typeof told["content"] === "string") files.set(path, told["content"]);
  } else if (tool === "write_file") {
    const next = contentAfter(args, files.get(path));
    if (next === undefined) files.delete(path);
    else files.set(path, next);
  }
}

/** The file's content after a write; unknown for edits of a file that was not read. */
export function contentAfter(args: Record<string, unknown>, before: string | undefined): string | undefined {
  if (typeof args["content"] === "string") return args["content"];
  const edits = editsOf(args);
  if (before === undefined || edits === undefined) return undefined;
  let text = before;
  for (const edit of edits) {
    const at = text.indexOf(edit.old);
    if (at < 0) return undefined;
    text = text.slice(0, at) + edit.new + text.slice(at + edit.old.length);
  }
  return text;
}

export function editsOf(args: Record<string, unknown>): Edit[] | undefined {
  const edits = args["edits"];
  if (!Array.isArray(edits)) return undefined;
  return edits.filter(isEdit);
}

function isEdit(value: unknown): value is Edit {
  if (typeof value !== "object" || value === null) return false;
  const { old, new: replacement } = value as Partial<Record<keyof Edit, unknown>>;
  return typeof old === "string" && typeof replacement === "string";
}
