// Text of an answer while it is streamed. Offsets count bytes of UTF-8. A higher attempt replaces the text, a lower one is ignored.
export interface Delta {
  content: string;
  attempt: number;
  offset: number;
}

export interface LiveText {
  content: string;
  bytes: number;
  attempt: number;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function applyDelta(present: LiveText | undefined, delta: Delta): LiveText {
  const { content, attempt, offset } = delta;
  const size = encoder.encode(content).length;
  if (present !== undefined && attempt < present.attempt) return present;
  if (present === undefined || attempt > present.attempt || offset === 0) {
    return { content, bytes: size, attempt };
  }
  if (offset === present.bytes) return { content: present.content + content, bytes: present.bytes + size, attempt };
  // Text after a missing part cannot be placed. The stored message will replace it.
  if (offset > present.bytes) return present;
  const kept = decoder.decode(encoder.encode(present.content).slice(0, offset));
  return { content: kept + content, bytes: offset + size, attempt };
}
