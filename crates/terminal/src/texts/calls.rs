//! The texts of tool calls: what they are, what came of them, and what was allowed for good.

texts! {
    CallText;
    VerbRead:
        "read",
        "чтение",
        "читання";
    VerbWrite:
        "write",
        "запись",
        "запис";
    VerbList:
        "list",
        "список",
        "список";
    VerbSearch:
        "search",
        "поиск",
        "пошук";
    VerbMakeFolder:
        "make folder",
        "новая папка",
        "нова тека";
    OneLine:
        "1 line",
        "строк: 1",
        "рядків: 1";
    ManyLines:
        "{0} lines",
        "строк: {0}",
        "рядків: {0}";
    OneEntry:
        "1 entry",
        "записей: 1",
        "записів: 1";
    ManyEntries:
        "{0} entries",
        "записей: {0}",
        "записів: {0}";
    OneMatch:
        "1 match",
        "совпадений: 1",
        "збігів: 1";
    ManyMatches:
        "{0} matches",
        "совпадений: {0}",
        "збігів: {0}";
    Bytes:
        "{0} bytes",
        "байт: {0}",
        "байтів: {0}";
    ResultCut:
        ", cut",
        ", сокращено",
        ", скорочено";
    OutcomeExpired:
        "no tool runner claimed it in time; it did not run",
        "исполнитель не нашёлся вовремя; вызов не выполнен",
        "виконавця не знайшлося вчасно; виклик не виконано";
    OutcomeUnknown:
        "no result came: it may or may not have run, and it is not run again",
        "результат не пришёл: вызов мог выполниться или нет, повторно он не запускается",
        "результат не надійшов: виклик міг виконатися чи ні, повторно його не запускають";
    LateResult:
        "the result came after its deadline",
        "результат пришёл после срока",
        "результат надійшов після строку";
    WaitsForClient:
        "waiting for a tool runner",
        "ждёт исполнителя инструментов",
        "чекає на виконавця інструментів";
    GrantedWrites:
        "approved; until this session ends, no write of a file asks any more, except of protected paths; /allowed takes it back",
        "одобрено; до конца этой сессии запись файлов больше не спрашивает, кроме защищённых путей; отозвать: /allowed",
        "погоджено; до кінця цієї сесії запис файлів більше не запитує, крім захищених шляхів; відкликати: /allowed";
    GrantedCommand:
        "approved; until this session ends, this very command in the same folder does not ask any more; /allowed takes it back",
        "одобрено; до конца этой сессии эта же команда в той же папке больше не спрашивает; отозвать: /allowed",
        "погоджено; до кінця цієї сесії ця сама команда в тій самій теці більше не запитує; відкликати: /allowed";
    KeyAlwaysWrites:
        "always: every write in this session",
        "всегда: любая запись в этой сессии",
        "завжди: будь-який запис у цій сесії";
    KeyAlwaysCommand:
        "always: this command in this session",
        "всегда: эта команда в этой сессии",
        "завжди: ця команда в цій сесії";
}
