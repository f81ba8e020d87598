import { describe, expect, test } from "vitest";
import type { Message } from "../src/api/types";
import {
  base64,
  imageType,
  MAX_FILES,
  MAX_IMAGE_BYTES,
  MAX_TOTAL_BYTES,
  withFiles,
  type GivenFile,
} from "../src/state/attachments";
import { fileSize } from "../src/state/format";
import { reduceSession } from "../src/state/reduce";
import { emptySession } from "../src/state/session";

const bytes = (text: string) => Uint8Array.from([...text].map((letter) => letter.charCodeAt(0)));
const PNG = bytes("\x89PNG\r\n\x1a\nrest");

const file = (name: string, content: Uint8Array, type = "", size = content.length): GivenFile => ({
  name,
  type,
  size,
  arrayBuffer: () => Promise.resolve(content.slice().buffer),
});

describe("files for a message", () => {
  test("an image has the type of its content, and a text the browser's if it is one of text", async () => {
    const given = [
      file("a.png", PNG, "image/jpeg"),
      file("a.rs", bytes("fn main() {}")),
      file("a.ts", bytes("let a = 1;"), "video/mp2t"),
      file("a.md", bytes("# A"), "text/markdown"),
    ];
    const { chosen, refused } = await withFiles([], given);
    expect(refused).toEqual([]);
    expect(chosen.map((chosen) => [chosen.name, chosen.media_type])).toEqual([
      ["a.png", "image/png"],
      ["a.rs", "text/plain"],
      ["a.ts", "text/plain"],
      ["a.md", "text/markdown"],
    ]);
    expect(chosen[0]).toMatchObject({ size: PNG.length, data: Buffer.from(PNG).toString("base64") });
  });

  test("what cannot be sent is refused with a reason, and the rest stays", async () => {
    const { chosen } = await withFiles([], [file("a.txt", bytes("a"))]);
    const given = [
      file("a.pdf", bytes("%PDF\xe2\xe3"), "application/pdf"),
      file("a.bin", bytes("a\0b"), "text/plain"),
      file("huge.txt", bytes("a"), "", MAX_TOTAL_BYTES),
      { ...file("folder", bytes("")), arrayBuffer: () => Promise.reject(new Error("a folder")) },
      file("b.txt", bytes("b")),
    ];
    const next = await withFiles(chosen, given);
    expect(next.refused).toEqual([
      { name: "a.pdf", why: "wrongKind" },
      { name: "a.bin", why: "wrongKind" },
      { name: "huge.txt", why: "tooLarge" },
      { name: "folder", why: "unreadable" },
    ]);
    expect(next.chosen.map(({ name }) => name)).toEqual(["a.txt", "b.txt"]);
    const many = Array.from({ length: MAX_FILES }, (_, at) => file(`${at}.txt`, bytes("a")));
    const full = await withFiles(chosen, many);
    expect(full.chosen).toHaveLength(MAX_FILES);
    expect(full.refused).toEqual([{ name: `${MAX_FILES - 1}.txt`, why: "tooMany" }]);
  });

  test("an image that model servers refuse is refused here", async () => {
    const image = new Uint8Array(MAX_IMAGE_BYTES + 1);
    image.set(PNG);
    const { chosen, refused } = await withFiles([], [file("a.png", image)]);
    expect([chosen, refused]).toEqual([[], [{ name: "a.png", why: "imageTooLarge" }]]);
  });

  test("the images that models take are known by how they begin", () => {
    expect(imageType(bytes("\xff\xd8\xff\xe0"))).toBe("image/jpeg");
    expect(imageType(bytes("GIF89a"))).toBe("image/gif");
    expect(imageType(bytes("RIFF....WEBPVP8 "))).toBe("image/webp");
    expect(imageType(bytes("RIFF....WAVE"))).toBeUndefined();
  });

  test("large files become base64 whole", () => {
    const large = Uint8Array.from({ length: 100_000 }, (_, at) => at % 256);
    expect(base64(large)).toBe(Buffer.from(large).toString("base64"));
  });

  test("sizes are short", () => {
    expect([900, 2048, 1_600_000].map((size) => fileSize("en", size))).toEqual(["900 byte", "2 kB", "1.5 MB"]);
  });
});

test("a message shows its files", () => {
  const attachments = [{ name: "a.png", media_type: "image/png", size: 12, digest: "00" }];
  const message: Message = {
    message_id: "m1",
    role: "user",
    content: "Look",
    timestamp: "2026-01-01T00:00:00Z",
    attachments,
  };
  const state = reduceSession(emptySession, [{ kind: "history", messages: [message] }]);
  expect(state.items).toMatchObject([{ kind: "message", content: "Look", attachments }]);
});
