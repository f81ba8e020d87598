const PATHS = {
  chat: "M4 5.5h16v11H9.5L5 20v-3.5H4z",
  sessions: "M4 6h16M4 12h10M4 18h13",
  waiting: "M12 3.5 19 6v5.5c0 4.2-2.9 7.4-7 9-4.1-1.6-7-4.8-7-9V6zM9 12l2.2 2.2L15.2 10",
  plans: "M5 4h5v5H5zM14 15h5v5h-5zM14 4h5v5h-5zM10 6.5h4M16.5 9v6",
  agents:
    "M12 4v2.5M6 9.5A3 3 0 0 1 9 6.5h6a3 3 0 0 1 3 3v6a3 3 0 0 1-3 3H9a3 3 0 0 1-3-3zM9.8 11.5v1.5M14.2 11.5v1.5M3.5 11.5v3M20.5 11.5v3",
  operations: "M4 19.5h16M6.5 16v-4M11 16V7M15.5 16v-6M20 16V4.5",
  plus: "M12 5v14M5 12h14",
  back: "M14.5 5.5 8 12l6.5 6.5",
  down: "M6 9.5 12 15.5 18 9.5",
  up: "M6 14.5 12 8.5 18 14.5",
  send: "M4.5 12 20 4.5 15.5 20l-3.8-6.7zM11.7 13.3 20 4.5",
  stop: "M7 7h10v10H7z",
  attach: "M18.5 11.5 12 18a4.2 4.2 0 0 1-6-6l7-7a2.9 2.9 0 0 1 4.1 4.1l-6.7 6.7a1.4 1.4 0 0 1-2-2l6-6",
  file: "M7 3.5h7l4 4V20.5H7zM14 3.5v4h4",
  terminal: "M4 5.5h16v13H4zM7.5 9.5l3 2.5-3 2.5M12.5 15h4",
  search: "M10.5 4.5a6 6 0 1 1 0 12 6 6 0 0 1 0-12zM15 15l5 5",
  folder: "M3.5 6.5h6l2 2.5h9v9.5h-17z",
  tools: "M9 3.5V8M15 3.5V8M6.5 8h11v3.5a5.5 5.5 0 0 1-11 0zM12 17v3.5",
  tool: "M14.5 5a4.5 4.5 0 0 0-4 6.5L4.5 17.5l2 2 6-6a4.5 4.5 0 0 0 6-5.5l-2.7 2.7-2.5-.7-.7-2.5L15.3 5z",
  check: "M5 12.5 10 17.5 19.5 7",
  cross: "M6.5 6.5l11 11M17.5 6.5l-11 11",
  edit: "M5 19l.8-3.8L16 5l3 3L8.8 18.2z",
  trash: "M5 7h14M9.5 7V4.5h5V7M7 7l1 13h8l1-13",
  settings: "M5 7h9M18 7h1M5 12h2M11 12h8M5 17h7M16 17h3M16 5.2v3.6M9 10.2v3.6M14 15.2v3.6",
  arrow: "M5 12h13M13 6.5 18.5 12 13 17.5",
  question: "M9 9.5a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 17.8v.2",
  warning: "M12 4.5 20.5 19h-17zM12 10v4M12 16.5v.2",
  clock: "M12 4.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15zM12 8v4.3l3 1.7",
  logout: "M14 5H6v14h8M10.5 12H20M16.5 8.5 20 12l-3.5 3.5",
  copy: "M9 9h10.5v11H9zM6.5 15H4.5V4H15v2",
  more: "M4.5 12a1 1 0 1 0 2 0 1 1 0 1 0-2 0M11 12a1 1 0 1 0 2 0 1 1 0 1 0-2 0M17.5 12a1 1 0 1 0 2 0 1 1 0 1 0-2 0",
  pin: "M9 4h6l-.8 6 3.3 3.5h-11L9.8 10zM12 13.5V20.5",
  archive: "M4 5h16v4H4zM5.5 9v10h13V9M10 12.5h4",
  compact: "M4.5 5h15M4.5 19h15M12 7.5v3M9.8 8.8 12 11l2.2-2.2M12 16.5v-3M9.8 15.2 12 13l2.2 2.2",
  shield: "M12 3.5 19 6v5.5c0 4.2-2.9 7.4-7 9-4.1-1.6-7-4.8-7-9V6z",
  fork: "M7 4.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3zM17 4.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3zM12 16.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3zM7 7.5v2c0 1.5 5 1.5 5 4v3M17 7.5v2c0 1.5-5 1.5-5 4",
  steer: "M5 19c0-7 3-11 12-11M12.5 4 17 8l-4.5 4",
  bell: "M6.5 16V11a5.5 5.5 0 0 1 11 0v5l1.5 2H5zM10.5 20.5h3",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Mark() {
  return (
    <svg class="brand-mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M12.5 9 6 16l6.5 7M19.5 9 26 16l-6.5 7" />
      <circle cx="16" cy="16" r="2.2" />
    </svg>
  );
}
