// Texts about what a folder brings, in Ukrainian.
import type { Text } from "../en";
import type { broughtEn } from "./en";

export const broughtUk: Record<keyof typeof broughtEn, Text> = {
  "brought.open": "Що повідомляється моделям про {folder}",
  "brought.title": "Що приносить ця тека",
  "brought.waitingCount": {
    one: "{n} файл чекає на вашу довіру",
    few: "{n} файли чекають на вашу довіру",
    many: "{n} файлів чекають на вашу довіру",
    other: "{n} файлу чекають на вашу довіру",
  },
  "brought.told": "Повідомляється моделям",
  "brought.toldAlways": "завжди",
  "brought.toldBeneath": "коли зачеплено файл усередині {folder}",
  "brought.skills": "Навички, доступні моделям",
  "brought.commands": "Команди для термінала",
  "brought.waiting": "Чекають на вашу довіру",
  "brought.notices": "Пропущено",
  "brought.nothing": "Ця тека не приносить ні вказівок, ні навичок, ні команд.",
  "brought.bytes": { one: "{n} байт", few: "{n} байти", many: "{n} байтів", other: "{n} байта" },
  "brought.ask": "Тека {folder} приносить {kind}: {path}",
  "brought.askText": "Поки ви не довіритеся саме цьому вмісту, він ні на що не впливає і моделям не повідомляється.",
  "brought.changed": "Раніше довіра була іншому вмісту. Відтоді він змінився.",
  "brought.trust": "Довіряти цьому вмісту",
  "brought.notNow": "Не зараз",
  "brought.decided": "Виконавець інструментів приймає рішення…",
  "brought.truncated": "Він задовгий, щоб показати його тут. Перегляньте його в теці командою: codelab trust",
  "brought.parts": "Файли навички, на які довіра теж поширюється",
  "brought.kind.instructions": "вказівки для моделей",
  "brought.kind.skill": "навичку для моделей",
  "brought.kind.command": "команду для термінала",
  "brought.kind.mcp_servers": "сервери MCP — програми, які запускаються з вашими правами",
  "brought.startsNow": "Вони запустяться, щойно ви довіритеся цьому вмісту.",
  "brought.more": { one: "чекає ще {n}", few: "чекають ще {n}", many: "чекають ще {n}", other: "чекають ще {n}" },
};
