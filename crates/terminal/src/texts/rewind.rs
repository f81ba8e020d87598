//! The texts of rewinds.

texts! {
    RewindText;
    NothingToRewind:
        "there is no message to go back to",
        "нет сообщения, к которому можно вернуться",
        "немає повідомлення, до якого можна повернутися";
    RewindHint:
        "/rewind N [files|conversation|both] takes back everything from that message on",
        "/rewind N [files|conversation|both] отменит всё начиная с этого сообщения",
        "/rewind N [files|conversation|both] скасує все починаючи з цього повідомлення";
    EscapeHint:
        "Esc again: go back to one of your messages",
        "ещё раз Esc: вернуться к одному из ваших сообщений",
        "ще раз Esc: повернутися до одного з ваших повідомлень";
    PickRewindHint:
        "↑ ↓ or a number, then Enter: go back to before this message · Esc: stay",
        "↑ ↓ или номер, затем Enter: вернуться к моменту перед этим сообщением · Esc: остаться",
        "↑ ↓ або номер, потім Enter: повернутися до моменту перед цим повідомленням · Esc: залишитися";
    PickForkHint:
        "↑ ↓ or a number, then Enter: a new session that ends before this message · Esc: stay",
        "↑ ↓ или номер, затем Enter: новая сессия со всем, что было до этого сообщения · Esc: остаться",
        "↑ ↓ або номер, потім Enter: нова сесія з усім, що було до цього повідомлення · Esc: залишитися";
    PickScopeHint:
        "↑ ↓ or a number, then Enter: take this back · Esc: another message",
        "↑ ↓ или номер, затем Enter: отменить это · Esc: другое сообщение",
        "↑ ↓ або номер, потім Enter: скасувати це · Esc: інше повідомлення";
    EverythingSoFar:
        "everything so far",
        "всё до этого места",
        "усе до цього місця";
    FilesAndConversation:
        "files and conversation",
        "файлы и разговор",
        "файли й розмову";
    OnlyFiles:
        "files",
        "файлы",
        "файли";
    OnlyConversation:
        "conversation",
        "разговор",
        "розмову";
    GoesBackTo:
        "back to before: {0}",
        "вернуться к моменту перед: {0}",
        "повернутися до моменту перед: {0}";
    LookingAtFiles:
        "looking at the files …",
        "файлы проверяются …",
        "файли перевіряються …";
    WouldRestore:
        "these files would be as they were:",
        "эти файлы станут прежними:",
        "ці файли стануть такими, як були:";
    WouldLeave:
        "these were changed since and stay as they are:",
        "эти изменены после агентов и останутся как есть:",
        "ці змінено після агентів, вони лишаться як є:";
    NoFileWritten:
        "no file would change",
        "ни один файл не изменится",
        "жоден файл не зміниться";
    FilesUnknown:
        "which files would change is not known here",
        "какие файлы изменятся, отсюда не видно",
        "які файли зміняться, звідси не видно";
    More:
        "… and {0} more",
        "… и ещё {0}",
        "… і ще {0}";
    NotAMessage:
        "{0} is no message of the list; /rewind shows it",
        "{0} — такого сообщения в списке нет; список показывает /rewind",
        "{0} — такого повідомлення в списку немає; список показує /rewind";
    RewindLater:
        "a turn is running; /rewind works when it has ended",
        "идёт ход; /rewind сработает, когда он закончится",
        "триває хід; /rewind спрацює, коли він закінчиться";
    NothingToRedo:
        "there is no rewind to take back",
        "нет отката, который можно отменить",
        "немає відкату, який можна скасувати";
    Rewound:
        "rewound: {0} files are as they were, {1} messages were taken back",
        "откат выполнен: файлов восстановлено: {0}, сообщений отменено: {1}",
        "відкат виконано: файлів відновлено: {0}, повідомлень скасовано: {1}";
    Undone:
        "the rewind was taken back: {0} files and {1} messages are there again",
        "откат отменён: возвращено файлов: {0}, сообщений: {1}",
        "відкат скасовано: повернено файлів: {0}, повідомлень: {1}";
    NotRewound:
        "nothing was rewound: {0}",
        "откат не выполнен: {0}",
        "відкат не виконано: {0}";
    Left:
        "left as they are:",
        "оставлено как есть:",
        "лишено як є:";
    NotCovered:
        "not covered, look yourself:",
        "откат этого не касается, проверьте сами:",
        "відкат цього не стосується, перевірте самі:";
    RedoHint:
        "/redo takes this back",
        "/redo отменит откат",
        "/redo скасує відкат";
}
