// Tokens on their way. Offsets count bytes of UTF-8; a higher attempt replaces what was shown.
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
  if (present === undefined || attempt > present.attempt || offset === 0) {
    return { content, bytes: size, attempt };
  }
  if (attempt < present.attempt) return present;
  if (offset === present.bytes) return { content: present.content + content, bytes: present.bytes + size, attempt };
  // Behind a hole nothing can be placed; the finished message closes it.
  if (offset > present.bytes) return present;
  const kept = decoder.decode(encoder.encode(present.content).slice(0, offset));
  return { content: kept + content, bytes: offset + size, attempt };
}
