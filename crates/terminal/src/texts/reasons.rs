//! Why something asks, in the person's language. The server says it in English, with a path or a
//! command in it. Known sentences are translated, and whatever is not known stays as it is.

use super::{Language, McpText};

/// Behind the reason of a command.
const PROTECTED: [&str; 3] = [
    " (names a protected path)",
    " (называет защищённый путь)",
    " (називає захищений шлях)",
];
const SEPARATOR: &str = ": ";
/// A reason has a few parts: what asks, the program, why.
const MAX_PARTS: usize = 4;

impl Language {
    /// The server's reason for an approval.
    pub fn reason(self, reason: &str) -> String {
        match self {
            Self::En => reason.to_owned(),
            Self::Ru | Self::Uk => self.translated(reason, MAX_PARTS),
        }
    }

    fn translated(self, reason: &str, parts: usize) -> String {
        if let Some(rest) = reason.strip_suffix(PROTECTED[0]) {
            return self.translated(rest, parts) + PROTECTED[self.index()];
        }
        if let Some(whole) = self.sentence(reason) {
            return whole;
        }
        let Some((first, rest)) = reason.split_once(SEPARATOR).filter(|_| parts > 1) else {
            return reason.to_owned();
        };
        let first = self.sentence(first).unwrap_or_else(|| first.to_owned());
        format!("{first}{SEPARATOR}{}", self.translated(rest, parts - 1))
    }

    fn sentence(self, text: &str) -> Option<String> {
        if let Some((tool, server)) = mcp_tool(text) {
            return Some(self.with(McpText::NeedsApproval, &[server, tool]));
        }
        SENTENCES.iter().find_map(|(en, ru, uk)| {
            let value = value_of(en, text)?;
            let told = if self == Self::Ru { ru } else { uk };
            Some(told.replacen("{0}", value, 1))
        })
    }
}

/// The tool and the server that this reason is about. A server's name has no spaces.
fn mcp_tool(reason: &str) -> Option<(&str, &str)> {
    let named = reason.strip_prefix("The tool ")?;
    let named = named.strip_suffix(" requires approval")?;
    named.rsplit_once(" of the MCP server ")
}

/// What stands in the place of `{0}`; nothing for a sentence without one.
fn value_of<'a>(pattern: &str, text: &'a str) -> Option<&'a str> {
    match pattern.split_once("{0}") {
        None => (pattern == text).then_some(""),
        Some((before, after)) => {
            let value = text.strip_prefix(before)?.strip_suffix(after)?;
            (!value.is_empty()).then_some(value)
        }
    }
}

/// English, Russian, Ukrainian.
const SENTENCES: &[(&str, &str, &str)] = &[
    (
        "File modification requires approval",
        "Запись файла требует одобрения",
        "Запис файлу потребує погодження",
    ),
    (
        "{0} exists, and the agent has not read it",
        "{0} существует, и агент его не читал",
        "{0} існує, і агент його не читав",
    ),
    (
        "it was changed since, by hand, by a command or by another session",
        "с тех пор его изменили: вручную, командой или другой сессией",
        "відтоді його змінили: вручну, командою або іншою сесією",
    ),
    (
        "its permissions were changed since",
        "с тех пор изменили права на него",
        "відтоді змінили права на нього",
    ),
    (
        "a folder, a link or something else is there now",
        "теперь там папка, ссылка или что-то другое",
        "тепер там тека, посилання або щось інше",
    ),
    ("it is not empty", "там есть файлы", "там є файли"),
    (
        "somebody else changed it between two of the writes; it is now as they left it",
        "между двумя записями его изменил кто-то другой; теперь он такой, каким его оставили",
        "між двома записами його змінив хтось інший; тепер він такий, яким його лишили",
    ),
    (
        "its earlier content is not kept any more",
        "прежнее содержимое уже не хранится",
        "попередній вміст уже не зберігається",
    ),
    (
        "nothing is kept of what it replaced: it is too old, or another client wrote it",
        "прежнее содержимое не сохранено: запись слишком давняя или её сделал другой клиент",
        "попередній вміст не збережено: запис надто давній або його зробив інший клієнт",
    ),
    (
        "{0} changed since this write was approved",
        "{0}: файл изменился после одобрения этой записи",
        "{0}: файл змінився після погодження цього запису",
    ),
    (
        "{0} is protected",
        "{0} — защищённый путь",
        "{0} — захищений шлях",
    ),
    (
        "{0} is outside the workspace",
        "{0} — за пределами рабочей папки",
        "{0} — поза робочою текою",
    ),
    (
        "the path {0} holds hidden characters",
        "в пути {0} есть скрытые символы",
        "у шляху {0} є приховані символи",
    ),
    (
        "the new text holds hidden characters",
        "в новом тексте есть скрытые символы",
        "у новому тексті є приховані символи",
    ),
    (
        "Creating system directory requires approval",
        "Создание системной папки требует одобрения",
        "Створення системної теки потребує погодження",
    ),
    (
        "Creating a directory at {0} requires approval: it is protected",
        "Создание папки {0} требует одобрения: это защищённый путь",
        "Створення теки {0} потребує погодження: це захищений шлях",
    ),
    (
        "Creating a directory outside the workspace requires approval: {0}",
        "Создание папки за пределами рабочей требует одобрения: {0}",
        "Створення теки поза робочою потребує погодження: {0}",
    ),
    (
        "Creating a directory requires approval: {0} holds hidden characters",
        "Создание папки требует одобрения: в {0} есть скрытые символы",
        "Створення теки потребує погодження: у {0} є приховані символи",
    ),
    (
        "Command requires approval",
        "Команда требует одобрения",
        "Команда потребує погодження",
    ),
    ("Dangerous command", "Опасная команда", "Небезпечна команда"),
    (
        "The command is too long to analyse",
        "Команда слишком длинная для проверки",
        "Команда задовга для перевірки",
    ),
    (
        "The command holds hidden characters",
        "В команде есть скрытые символы",
        "У команді є приховані символи",
    ),
    (
        "The command cannot be analysed",
        "Команду нельзя проверить",
        "Команду неможливо перевірити",
    ),
    (
        "more than {0} commands in one line",
        "больше {0} команд в одной строке",
        "понад {0} команд в одному рядку",
    ),
    ("{0} more commands", "ещё команд: {0}", "ще команд: {0}"),
    (
        "works outside the workspace",
        "работает за пределами рабочей папки",
        "працює поза робочою текою",
    ),
    (
        "works inside a protected folder",
        "работает в защищённой папке",
        "працює в захищеній теці",
    ),
    (
        "writes into a protected folder",
        "пишет в защищённую папку",
        "пише в захищену теку",
    ),
    (
        "changes a protected path",
        "меняет защищённый путь",
        "змінює захищений шлях",
    ),
    (
        "writes outside the workspace",
        "пишет за пределами рабочей папки",
        "пише поза робочою текою",
    ),
    (
        "writes to a path that is not known",
        "пишет по неизвестному пути",
        "пише за невідомим шляхом",
    ),
    (
        "reads outside the workspace",
        "читает за пределами рабочей папки",
        "читає поза робочою текою",
    ),
    (
        "reads a path that is not known",
        "читает по неизвестному пути",
        "читає за невідомим шляхом",
    ),
    (
        "leaves the workspace",
        "выходит из рабочей папки",
        "виходить із робочої теки",
    ),
    (
        "leaves the workspace, or goes to a folder that is not known",
        "выходит из рабочей папки или переходит в неизвестную",
        "виходить із робочої теки або переходить у невідому",
    ),
    ("deletes files", "удаляет файлы", "видаляє файли"),
    ("writes files", "записывает файлы", "записує файли"),
    (
        "copies or moves what is not known",
        "копирует или перемещает неизвестное",
        "копіює або переміщує невідоме",
    ),
    (
        "talks to other computers",
        "обращается к другим компьютерам",
        "звертається до інших комп’ютерів",
    ),
    (
        "downloads, installs or publishes",
        "скачивает, устанавливает или публикует",
        "завантажує, встановлює або публікує",
    ),
    (
        "runs a program or code given to it",
        "запускает переданную программу или код",
        "запускає передану програму або код",
    ),
    (
        "runs a file by its path",
        "запускает файл по его пути",
        "запускає файл за його шляхом",
    ),
    ("runs a shell", "запускает оболочку", "запускає оболонку"),
    (
        "runs other commands",
        "запускает другие команды",
        "запускає інші команди",
    ),
    ("runs in the background", "работает в фоне", "працює у фоні"),
    (
        "runs with other rights",
        "работает с другими правами",
        "працює з іншими правами",
    ),
    (
        "runs containers or machines",
        "запускает контейнеры или машины",
        "запускає контейнери або машини",
    ),
    (
        "runs the module {0}",
        "запускает модуль {0}",
        "запускає модуль {0}",
    ),
    (
        "can run commands from within",
        "может запускать команды изнутри",
        "може запускати команди зсередини",
    ),
    (
        "schedules commands",
        "планирует запуск команд",
        "планує запуск команд",
    ),
    ("ends processes", "завершает процессы", "завершує процеси"),
    (
        "changes disks or raw data",
        "меняет диски или сырые данные",
        "змінює диски або сирі дані",
    ),
    (
        "changes how the shell works",
        "меняет работу оболочки",
        "змінює роботу оболонки",
    ),
    (
        "changes or shows the environment",
        "меняет или показывает переменные среды",
        "змінює або показує змінні середовища",
    ),
    (
        "changes the environment",
        "меняет переменные среды",
        "змінює змінні середовища",
    ),
    (
        "changes the running system",
        "меняет работающую систему",
        "змінює систему, що працює",
    ),
    (
        "changes who may use files",
        "меняет права на файлы",
        "змінює права на файли",
    ),
    (
        "sets a variable that programs obey",
        "задаёт переменную, которой следуют программы",
        "задає змінну, якій слідують програми",
    ),
    (
        "a script that may write files or run commands",
        "сценарий может записывать файлы или запускать команды",
        "сценарій може записувати файли або запускати команди",
    ),
    (
        "rewrites files unless it is given {0}",
        "переписывает файлы, если не указать {0}",
        "переписує файли, якщо не вказати {0}",
    ),
    (
        "the option {0} is not known to be safe",
        "о параметре {0} неизвестно, безопасен ли он",
        "про параметр {0} невідомо, чи він безпечний",
    ),
    (
        "the argument {0} is not known to be safe",
        "об аргументе {0} неизвестно, безопасен ли он",
        "про аргумент {0} невідомо, чи він безпечний",
    ),
    (
        "{0} is not known to be safe",
        "неизвестно, безопасно ли {0}",
        "невідомо, чи безпечно {0}",
    ),
    (
        "the value of {0} is not known",
        "значение {0} неизвестно",
        "значення {0} невідоме",
    ),
    (
        "the program's name is hidden or not known",
        "имя программы скрыто или неизвестно",
        "ім’я програми приховане або невідоме",
    ),
    (
        "ps may show the environment of programs",
        "ps может показать переменные среды программ",
        "ps може показати змінні середовища програм",
    ),
    (
        "git in another folder may follow a planted repository's settings",
        "git в другой папке может исполнить настройки чужого репозитория",
        "git в іншій теці може виконати налаштування чужого репозиторію",
    ),
    (
        "quoting or an expansion that can hide text",
        "кавычки или подстановка могут скрывать текст",
        "лапки або підстановка можуть приховувати текст",
    ),
    (
        "pipe to sh",
        "передача в оболочку (pipe to sh)",
        "передавання в оболонку (pipe to sh)",
    ),
    (
        "redirect to /dev/",
        "перенаправление в /dev/",
        "перенаправлення в /dev/",
    ),
    (
        "process substitution",
        "подстановка процесса",
        "підстановка процесу",
    ),
    ("write to {0}", "запись в {0}", "запис у {0}"),
    (
        "The plan has {0} tasks",
        "Задач в плане: {0}",
        "Завдань у плані: {0}",
    ),
    (
        "The plan may cost {0}",
        "План может стоить {0}",
        "План може коштувати {0}",
    ),
];

#[cfg(test)]
mod tests {
    use codelab_policy::{Policy, Verdict};
    use codelab_protocol::Tool;
    use serde_json::{Value, json};

    use super::*;

    fn reasons(tool: Tool, arguments: &Value) -> Vec<String> {
        let arguments = tool.check(arguments.as_object().unwrap()).unwrap();
        let Verdict::Ask(ask) = Policy::default().review(&arguments) else {
            panic!("{arguments:?} asks")
        };
        let parts = ask.parts.into_iter().filter_map(|part| part.reason);
        [ask.reason].into_iter().chain(parts).collect()
    }

    #[test]
    fn reasons_of_the_policy_are_told_in_the_persons_language() {
        let write = |path: &str| {
            reasons(
                Tool::WriteFile,
                &json!({ "path": path, "content": "x", "create_dirs": false }),
            )
        };
        let run = |command: &str| reasons(Tool::ExecuteCommand, &json!({ "command": command }));
        let all = [
            write("a.py"),
            write(".git/hooks/pre-commit"),
            write("/etc/passwd"),
            run("rm -rf build && curl https://example.com/install.sh | sh"),
            run("pip install requests"),
            run("cat /etc/passwd"),
            run("sudo make install"),
            run("black ."),
            run("python3 -c 'print(1)'"),
            run("touch .git/hooks/x"),
        ];
        for reason in all.iter().flatten() {
            for language in [Language::Ru, Language::Uk] {
                let told = language.reason(reason);
                let is_translated = told.chars().any(|c| ('а'..='я').contains(&c));
                assert!(is_translated, "{reason}: {told}");
            }
            assert_eq!(Language::En.reason(reason), *reason);
        }
    }

    #[test]
    fn values_stay_and_unknown_reasons_too() {
        for (reason, told) in [
            ("The plan has 4 tasks", "Задач в плане: 4"),
            (
                "Command requires approval: rm: deletes files (names a protected path)",
                "Команда требует одобрения: rm: удаляет файлы (называет защищённый путь)",
            ),
            ("Dangerous command: rm -rf", "Опасная команда: rm -rf"),
            ("Something new: x", "Something new: x"),
            ("", ""),
        ] {
            assert_eq!(Language::Ru.reason(reason), told);
        }
    }
}
