// Files for a message: which ones can be sent, and how.
import type { NewAttachment } from "../api/types";

/** The server's limits. */
export const MAX_FILES = 8;
/** In base64 and with the message, this is within the largest request that a server takes by default. */
export const MAX_TOTAL_BYTES = 5.5 * 1024 * 1024;
/** What every model server takes of one image. */
export const MAX_IMAGE_BYTES = 3.75 * 1024 * 1024;

/** A file that the user chose and has not sent. */
export interface ChosenFile extends NewAttachment {
  /** In bytes. */
  size: number;
}

export interface RefusedFile {
  name: string;
  why: "tooMany" | "tooLarge" | "imageTooLarge" | "wrongKind" | "unreadable";
}

const starts = (bytes: Uint8Array, text: string, at = 0) =>
  [...text].every((letter, index) => bytes[at + index] === letter.charCodeAt(0));

/** The type of an image that models take, by how it begins. */
export function imageType(bytes: Uint8Array): string | undefined {
  if (starts(bytes, "\x89PNG\r\n\x1a\n")) return "image/png";
  if (starts(bytes, "\xff\xd8\xff")) return "image/jpeg";
  if (starts(bytes, "GIF87a") || starts(bytes, "GIF89a")) return "image/gif";
  if (starts(bytes, "RIFF") && starts(bytes, "WEBP", 8)) return "image/webp";
  return undefined;
}

export const isImage = (mediaType: string) => /^image\/(png|jpeg|gif|webp)$/.test(mediaType);

/** The type to send a file with; undefined if it is neither an image nor a text. */
export function mediaType(bytes: Uint8Array, told: string): string | undefined {
  const image = imageType(bytes);
  if (image !== undefined) return image;
  if (bytes.includes(0)) return undefined;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
  // Browsers know few types of text, and take some texts for other things: `.ts` for a video.
  return told.startsWith("text/") || told === "application/json" ? told : "text/plain";
}

const PIECE = 0x8000;

export function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  return btoa(text);
}

/** What a browser tells of a file. */
export type GivenFile = Pick<File, "name" | "type" | "size" | "arrayBuffer">;

/** Undefined if the browser cannot read it: a folder, or a file that has gone. */
async function contentOf(file: GivenFile): Promise<Uint8Array | undefined> {
  try {
    return new Uint8Array(await file.arrayBuffer());
  } catch {
    return undefined;
  }
}

/** The chosen files with those of the new ones that can be sent, and why others cannot. */
export async function withFiles(
  chosen: readonly ChosenFile[],
  given: readonly GivenFile[],
): Promise<{ chosen: ChosenFile[]; refused: RefusedFile[] }> {
  const all = [...chosen];
  const refused: RefusedFile[] = [];
  for (const file of given) {
    const { name, size } = file;
    if (all.length >= MAX_FILES) {
      refused.push({ name, why: "tooMany" });
      continue;
    }
    if (all.reduce((sum, other) => sum + other.size, size) > MAX_TOTAL_BYTES) {
      refused.push({ name, why: "tooLarge" });
      continue;
    }
    const bytes = await contentOf(file);
    if (bytes === undefined) {
      refused.push({ name, why: "unreadable" });
      continue;
    }
    const media_type = mediaType(bytes, file.type);
    if (media_type === undefined) refused.push({ name, why: "wrongKind" });
    else if (isImage(media_type) && bytes.length > MAX_IMAGE_BYTES) refused.push({ name, why: "imageTooLarge" });
    else all.push({ name, media_type, data: base64(bytes), size: bytes.length });
  }
  return { chosen: all, refused };
}
