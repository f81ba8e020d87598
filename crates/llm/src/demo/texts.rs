//! The texts of the demonstration model, in three languages.

use super::language::DemoLanguage;

pub const LABEL: &str = "offline demonstration model";
pub const ROUTING_REASON: &str = "offline demonstration: chosen by simple words";
pub const ROUTING_DEFAULT: &str = "coder";

/// Keyword stems of each agent, in English, Russian and Ukrainian. On a tie the earlier row wins.
pub const ROUTING_WORDS: &[(&str, &[&str])] = &[
    (
        "debug",
        &[
            "error",
            "bug",
            "crash",
            "fail",
            "fix",
            "trace",
            "ошиб",
            "баг",
            "падает",
            "исправ",
            "помилк",
            "виправ",
            "збій",
        ],
    ),
    (
        "ask",
        &[
            "what",
            "why",
            "how ",
            "explain",
            "?",
            "что",
            "почему",
            "как ",
            "объясни",
            "зачем",
            "що ",
            "чому",
            "як ",
            "поясни",
        ],
    ),
    (
        "architect",
        &[
            "design",
            "architect",
            "plan",
            "specification",
            "спроект",
            "архитект",
            "план",
            "дизайн",
            "спроєкт",
            "архітект",
        ],
    ),
    (
        "coder",
        &[
            "write",
            "create",
            "implement",
            "code",
            "function",
            "refactor",
            "напиши",
            "создай",
            "код",
            "функци",
            "створи",
            "функці",
        ],
    ),
];

/// One language's texts.
pub struct Phrases {
    pub opening: &'static str,
    pub plain: &'static str,
    pub done: &'static str,
    pub done_with_result: &'static str,
    pub failed: &'static str,
    pub rejected: &'static str,
    pub connect: &'static str,
    pub file_content: &'static str,
    pub tasks: [&'static str; 3],
    /// The answer of the last task.
    pub told: &'static str,
    pub joined: &'static str,
    /// How to make the demonstration ask a question, and that question.
    pub try_asking: &'static str,
    pub question: &'static str,
    pub answered: &'static str,
}

/// Stems of requests to ask a question, in English, Russian and Ukrainian.
const ASKING_WORDS: [&str; 4] = ["ask me", "спроси", "запита", "спита"];

pub fn wants_a_question(said: &str) -> bool {
    let said = said.to_lowercase();
    ASKING_WORDS.iter().any(|word| said.contains(word))
}

pub fn phrases(language: DemoLanguage) -> &'static Phrases {
    match language {
        DemoLanguage::English => &ENGLISH,
        DemoLanguage::Russian => &RUSSIAN,
        DemoLanguage::Ukrainian => &UKRAINIAN,
    }
}

/// The texts in the language of the demonstration's own task at the beginning of a brief. The rest
/// of the brief may be in any language.
pub fn phrases_of_task(brief: &str) -> Option<&'static Phrases> {
    [&ENGLISH, &RUSSIAN, &UKRAINIAN]
        .into_iter()
        .find(|phrases| phrases.tasks.iter().any(|task| brief.starts_with(task)))
}

const ENGLISH: Phrases = Phrases {
    opening: "I am CodeLab's offline demonstration model. I do not understand your request, but I can show how an agent \
              uses a tool.",
    plain: "This is CodeLab's offline demonstration model. No real model is connected, so this answer is prepared in \
            advance. To connect one, set `LLM_PROXY_URL`, `LLM_MODEL` and `LLM_API_KEY` and start the server again.",
    done: "The tool call went through: it ran in your workspace and its result came back to me.",
    done_with_result: "This is what the tool call brought back:",
    failed: "The tool call did not work out. This is what came back:",
    rejected: "You said no, so nothing was done. That is how it should be: nothing dangerous runs without you.",
    connect: "This was the offline demonstration; no real model is connected. To connect one, set `LLM_PROXY_URL` (the \
              address of any OpenAI-compatible server), `LLM_MODEL` and, if the server needs a key, `LLM_API_KEY`, then \
              start CodeLab again.",
    file_content: "# CodeLab demonstration\n\nThis file was written by CodeLab's offline demonstration model after you \
                   approved it.\nDelete it whenever you like.\n",
    tasks: [
        "Demonstration: look at what is in the workspace",
        "Demonstration: write a small file, after asking you",
        "Demonstration: say what was done",
    ],
    told: "The tasks before this one looked at the workspace and wrote a small file, if you agreed.",
    joined: "All tasks of the demonstration's plan have ended. This is what they gave:",
    try_asking: "Write `ask me` to see how an agent asks and waits for you.",
    question: "What is your favourite colour?",
    answered: "You answered:",
};

const RUSSIAN: Phrases = Phrases {
    opening: "Я встроенная демонстрационная модель CodeLab и работаю без сети. Я не понимаю ваш запрос, но покажу, как \
              агент пользуется инструментом.",
    plain: "Это встроенная демонстрационная модель CodeLab. Настоящая модель не подключена, поэтому ответ заготовлен \
            заранее. Чтобы подключить её, задайте `LLM_PROXY_URL`, `LLM_MODEL` и `LLM_API_KEY` и перезапустите сервер.",
    done: "Вызов инструмента прошёл: он выполнился в вашей рабочей папке, и результат вернулся ко мне.",
    done_with_result: "Вот что вернул вызов инструмента:",
    failed: "Вызов инструмента не удался. Вот что вернулось:",
    rejected: "Вы отказали, поэтому ничего не сделано. Так и должно быть: опасное не выполняется без вашего согласия.",
    connect: "Это была демонстрация без сети; настоящая модель не подключена. Чтобы подключить её, задайте \
              `LLM_PROXY_URL` (адрес любого OpenAI-совместимого сервера), `LLM_MODEL` и, если серверу нужен ключ, \
              `LLM_API_KEY`, затем перезапустите CodeLab.",
    file_content: "# Демонстрация CodeLab\n\nЭтот файл записала встроенная демонстрационная модель CodeLab после вашего \
                   согласия.\nЕго можно удалить в любой момент.\n",
    tasks: [
        "Демонстрация: посмотреть, что есть в рабочей папке",
        "Демонстрация: записать небольшой файл, спросив вас",
        "Демонстрация: рассказать, что сделано",
    ],
    told: "Задачи перед этой посмотрели рабочую папку и записали небольшой файл, если вы согласились.",
    joined: "Все задачи демонстрационного плана завершены. Вот что они дали:",
    try_asking: "Напишите «спроси меня», чтобы увидеть, как агент спрашивает и ждёт ответа.",
    question: "Какой ваш любимый цвет?",
    answered: "Вы ответили:",
};

const UKRAINIAN: Phrases = Phrases {
    opening: "Я вбудована демонстраційна модель CodeLab і працюю без мережі. Я не розумію ваш запит, але покажу, як \
              агент користується інструментом.",
    plain: "Це вбудована демонстраційна модель CodeLab. Справжню модель не під'єднано, тому відповідь підготовлено \
            заздалегідь. Щоб під'єднати її, задайте `LLM_PROXY_URL`, `LLM_MODEL` і `LLM_API_KEY` та перезапустіть сервер.",
    done: "Виклик інструмента пройшов: він виконався у вашій робочій теці, і результат повернувся до мене.",
    done_with_result: "Ось що повернув виклик інструмента:",
    failed: "Виклик інструмента не вдався. Ось що повернулося:",
    rejected: "Ви відмовили, тому нічого не зроблено. Так і має бути: небезпечне не виконується без вашої згоди.",
    connect: "Це була демонстрація без мережі; справжню модель не під'єднано. Щоб під'єднати її, задайте \
              `LLM_PROXY_URL` (адресу будь-якого OpenAI-сумісного сервера), `LLM_MODEL` і, якщо серверу потрібен ключ, \
              `LLM_API_KEY`, а тоді перезапустіть CodeLab.",
    file_content: "# Демонстрація CodeLab\n\nЦей файл записала вбудована демонстраційна модель CodeLab після вашої \
                   згоди.\nЙого можна видалити будь-коли.\n",
    tasks: [
        "Демонстрація: подивитися, що є в робочій теці",
        "Демонстрація: записати невеликий файл, спитавши вас",
        "Демонстрація: розповісти, що зроблено",
    ],
    told: "Завдання перед цим подивилися робочу теку та записали невеликий файл, якщо ви погодилися.",
    joined: "Усі завдання демонстраційного плану завершено. Ось що вони дали:",
    try_asking: "Напишіть «запитай мене», щоб побачити, як агент питає й чекає на відповідь.",
    question: "Який ваш улюблений колір?",
    answered: "Ви відповіли:",
};
