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
