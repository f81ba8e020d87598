// Texts about what a folder brings, in Russian.
import type { Text } from "../en";
import type { broughtEn } from "./en";

export const broughtRu: Record<keyof typeof broughtEn, Text> = {
  "brought.open": "Что сообщается моделям о {folder}",
  "brought.title": "Что приносит эта папка",
  "brought.waitingCount": {
    one: "{n} файл ждёт вашего доверия",
    few: "{n} файла ждут вашего доверия",
    many: "{n} файлов ждут вашего доверия",
    other: "{n} файла ждут вашего доверия",
  },
  "brought.told": "Сообщается моделям",
  "brought.toldAlways": "всегда",
  "brought.toldBeneath": "когда затронут файл внутри {folder}",
  "brought.skills": "Навыки, доступные моделям",
  "brought.commands": "Команды для терминала",
  "brought.waiting": "Ждут вашего доверия",
  "brought.notices": "Пропущено",
  "brought.nothing": "Эта папка не приносит ни указаний, ни навыков, ни команд.",
  "brought.bytes": { one: "{n} байт", few: "{n} байта", many: "{n} байт", other: "{n} байта" },
  "brought.ask": "Папка {folder} приносит {kind}: {path}",
  "brought.askText": "Пока вы не доверитесь именно этому содержимому, оно ни на что не влияет и моделям не сообщается.",
  "brought.changed": "Раньше доверие было другому содержимому. С тех пор оно изменилось.",
  "brought.trust": "Доверять этому содержимому",
  "brought.notNow": "Не сейчас",
  "brought.decided": "Исполнитель инструментов принимает решение…",
  "brought.truncated": "Оно слишком длинное, чтобы показать его здесь. Посмотрите его в папке командой: codelab trust",
  "brought.parts": "Файлы навыка, на которые доверие тоже распространяется",
  "brought.kind.instructions": "указания для моделей",
  "brought.kind.skill": "навык для моделей",
  "brought.kind.command": "команду для терминала",
  "brought.kind.mcp_servers": "серверы MCP — программы, которые запускаются с вашими правами",
  "brought.startsNow": "Они запустятся, как только вы доверитесь этому содержимому.",
  "brought.more": { one: "ждёт ещё {n}", few: "ждут ещё {n}", many: "ждут ещё {n}", other: "ждут ещё {n}" },
};
