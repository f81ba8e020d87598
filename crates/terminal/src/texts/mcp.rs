//! The texts of MCP servers: their tools, their questions, and what waits for trust.

texts! {
    McpText;
    ToUse:
        "to use {1} of the MCP server {0}",
        "разрешить {1} сервера MCP {0}",
        "дозволити {1} сервера MCP {0}";
    Use:
        "use {1} of the MCP server {0}",
        "{1} сервера MCP {0}",
        "{1} сервера MCP {0}";
    Describes:
        "the server says what it does:",
        "сервер говорит, что это делает:",
        "сервер каже, що це робить:";
    Hints:
        "it says about itself, and nobody checks it: {0}",
        "о себе он говорит, и никто этого не проверяет: {0}",
        "про себе він каже, і ніхто цього не перевіряє: {0}";
    Asks:
        "the MCP server {0} asks:",
        "спрашивает сервер MCP {0}:",
        "питає сервер MCP {0}:";
    AnswerFields:
        "answer with a JSON object that has the fields in brackets; /decline gives no answer",
        "ответьте объектом JSON с полями в скобках; /decline — не отвечать",
        "дайте відповідь об’єктом JSON з полями в дужках; /decline — не відповідати";
    MayDecline:
        "/decline gives no answer",
        "/decline — не отвечать",
        "/decline — не відповідати";
    Granted:
        "approved; until this session ends, this tool does not ask any more, with any arguments; /allowed takes it back",
        "одобрено; до конца этой сессии этот инструмент больше не спрашивает, с любыми аргументами; /allowed отзывает это",
        "погоджено; до кінця цієї сесії цей інструмент більше не запитує, з будь-якими аргументами; /allowed відкликає це";
    KeyAlways:
        "always: this tool with any arguments in this session",
        "всегда: этот инструмент с любыми аргументами в этой сессии",
        "завжди: цей інструмент з будь-якими аргументами в цій сесії";
    NeedsApproval:
        "The tool {1} of the MCP server {0} requires approval",
        "Инструмент {1} сервера MCP {0} требует одобрения",
        "Інструмент {1} сервера MCP {0} потребує погодження";
    Failed:
        "the MCP server {0} failed: {1}",
        "сервер MCP {0} не работает: {1}",
        "сервер MCP {0} не працює: {1}";
    Untrusted:
        "{0} of this folder names MCP servers that nobody trusted, so they are not started; look at it with `codelab trust{1}` and start this command again",
        "{0} этой папки называет серверы MCP, которым никто не доверился, поэтому они не запущены; посмотрите его командой `codelab trust{1}` и запустите эту команду снова",
        "{0} цієї теки називає сервери MCP, яким ніхто не довірився, тому їх не запущено; перегляньте його командою `codelab trust{1}` і запустіть цю команду знову";
    Changed:
        "{0} of this folder changed since it was trusted, so its MCP servers are not started; look at it with `codelab trust{1}` and start this command again",
        "{0} этой папки изменился с тех пор, как ему доверились, поэтому его серверы MCP не запущены; посмотрите его командой `codelab trust{1}` и запустите эту команду снова",
        "{0} цієї теки змінився відтоді, як йому довірилися, тому його сервери MCP не запущено; перегляньте його командою `codelab trust{1}` і запустіть цю команду знову";
    Unusable:
        "MCP servers are left out: {0}",
        "серверы MCP пропущены: {0}",
        "сервери MCP пропущено: {0}";
    Overridden:
        "the MCP server {0} of this folder is left out: your own configuration has one of that name",
        "сервер MCP {0} этой папки пропущен: такой есть в вашей собственной конфигурации",
        "сервер MCP {0} цієї теки пропущено: такий є у вашій власній конфігурації";
    Ignored:
        "{0}: {1}",
        "{0}: {1}",
        "{0}: {1}";
}
