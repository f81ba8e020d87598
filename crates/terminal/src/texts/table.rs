//! The texts: English, Russian, Ukrainian.

macro_rules! texts {
    ($($name:ident: $en:literal, $ru:literal, $uk:literal;)*) => {
        /// A text that a person reads. `{0}`, `{1}` … stand for values.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Text {
            $($name,)*
        }

        impl Text {
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];

            pub(super) fn translations(self) -> [&'static str; 3] {
                match self {
                    $(Self::$name => [$en, $ru, $uk],)*
                }
            }
        }
    };
}

texts! {
    SessionReplaced:
        "the session was replaced on the server; it is shown from the start",
        "сессия на сервере заменена; показываем её с начала",
        "сесію на сервері замінено; показуємо її з початку";
    HistoryCompacted:
        "from here on {0} earlier messages are kept as a summary",
        "с этого места {0} предыдущих сообщений хранятся в виде краткого содержания",
        "від цього місця {0} попередніх повідомлень зберігаються як короткий зміст";
    EventsPruned:
        "events {0} to {1} were deleted on the server",
        "события с {0} по {1} удалены на сервере",
        "події з {0} по {1} видалено на сервері";
    BecauseFailed:
        "because {0} failed",
        "потому что задача {0} не выполнена",
        "бо завдання {0} не виконано";
    AnswerRestarted:
        "the model started its answer again:",
        "модель начала ответ заново:",
        "модель почала відповідь заново:";
    AnswerCut:
        "the answer ends here",
        "ответ обрывается здесь",
        "відповідь обривається тут";
    DescriptionsCut:
        "… long descriptions are cut; v shows all",
        "… длинные описания сокращены; v покажет всё",
        "… довгі описи скорочено; v покаже все";
    MoreLines:
        "… {0} more lines; v shows all",
        "… ещё строк: {0}; v покажет всё",
        "… ще рядків: {0}; v покаже все";
    ChosenByKeywords:
        "(chosen by keywords, because the planner gave no plan)",
        "(выбран по ключевым словам: планировщик не составил план)",
        "(обрано за ключовими словами: планувальник не склав план)";
    PlanByKeywords:
        "The planner gave no usable plan. The agent was chosen by keywords.",
        "Планировщик не составил пригодный план. Агент выбран по ключевым словам.",
        "Планувальник не склав придатного плану. Агента обрано за ключовими словами.";
    TaskDone:
        "done",
        "готово",
        "готово";
    TaskFailed:
        "failed",
        "ошибка",
        "помилка";
    TaskSkipped:
        "skipped",
        "пропущено",
        "пропущено";
    PlanDone:
        "the plan is done",
        "план выполнен",
        "план виконано";
    PlanPartial:
        "the plan is partly done",
        "план выполнен частично",
        "план виконано частково";
    PlanFailed:
        "the plan failed",
        "план не выполнен",
        "план не виконано";
    PlanCancelled:
        "the plan was cancelled",
        "план отменён",
        "план скасовано";
    RetryHint:
        "; /retry runs the failed tasks again",
        "; /retry запустит невыполненные задачи снова",
        "; /retry запустить невиконані завдання знову";
    Asks:
        "asks",
        "спрашивает",
        "запитує";
    QueuedAt:
        "queued, position {0}",
        "в очереди, место {0}",
        "у черзі, місце {0}";
    Cancelled:
        "cancelled",
        "отменено",
        "скасовано";
    Approved:
        "approved",
        "разрешено",
        "дозволено";
    ApprovedEdited:
        "approved with your changes",
        "разрешено с вашими изменениями",
        "дозволено з вашими змінами";
    Rejected:
        "rejected",
        "отклонено",
        "відхилено";
    DecisionExpired:
        "nobody decided in time: rejected",
        "никто не решил вовремя: отклонено",
        "ніхто не вирішив вчасно: відхилено";
    DecisionCancelled:
        "no longer needed",
        "больше не требуется",
        "більше не потрібно";
    DecidedBy:
        " by {0}",
        " ({0})",
        " ({0})";
    CostUnknown:
        "cost not known",
        "цена неизвестна",
        "ціна невідома";
    Tokens:
        "{0} tokens",
        "токенов: {0}",
        "токенів: {0}";
    MachineAsks:
        "This machine asks before it lets an agent",
        "Эта машина спрашивает, прежде чем разрешить агенту",
        "Ця машина запитує, перш ніж дозволити агентові";
    ToWrite:
        "to write {0}",
        "разрешение записать {0}",
        "дозвіл записати {0}";
    ToRun:
        "to run",
        "разрешение выполнить",
        "дозвіл виконати";
    ToUse:
        "to use {0}",
        "разрешение вызвать {0}",
        "дозвіл викликати {0}";
    LocalWrite:
        "write {0}",
        "записать {0}",
        "записати {0}";
    LocalRun:
        "run",
        "выполнить",
        "виконати";
    LocalUse:
        "use {0}",
        "вызвать {0}",
        "викликати {0}";
    BudgetUsedUp:
        "The budget is used up",
        "Бюджет исчерпан",
        "Бюджет вичерпано";
    BudgetKeys:
        "y allows the same amount again, e sets another limit, n ends the turn",
        "y разрешает ещё столько же, e задаёт другой лимит, n завершает ход",
        "y дозволяє ще стільки само, e задає інший ліміт, n завершує хід";
    Forged:
        "This does not match the server's digest. It can only be rejected.",
        "Это не совпадает с контрольной суммой сервера. Это можно только отклонить.",
        "Це не збігається з контрольною сумою сервера. Це можна лише відхилити.";
    WaitsForClient:
        "waits for a tool runner",
        "ждёт исполнителя инструментов",
        "чекає на виконавця інструментів";
    WaitsForYou:
        "waits for you",
        "ждёт вас",
        "чекає на вас";
    Writes:
        "writes",
        "пишет",
        "пише";
    AndMore:
        "… and {0} more",
        "… и ещё {0}",
        "… і ще {0}";
    MoreTasks:
        "… {0} more tasks; /plan shows all",
        "… ещё задач: {0}; /plan покажет все",
        "… ще завдань: {0}; /plan покаже всі";
    Sending:
        "sending",
        "отправляется",
        "надсилається";
    Works:
        "{0} works",
        "{0} работает",
        "{0} працює";
    Planning:
        "planning",
        "составляется план",
        "складається план";
    SomethingWaits:
        "Something waits for your decision. Tab shows it and keeps your draft.",
        "Нужно ваше решение. Tab покажет вопрос и сохранит черновик.",
        "Потрібне ваше рішення. Tab покаже питання і збереже чернетку.";
    TimeLeft:
        "{0} left",
        "осталось {0}",
        "залишилося {0}";
    KeyApprove:
        "approve",
        "разрешить",
        "дозволити";
    KeyEdit:
        "edit",
        "изменить",
        "змінити";
    KeyReject:
        "reject",
        "отклонить",
        "відхилити";
    KeyAlways:
        "always this session",
        "всегда в этой сессии",
        "завжди в цій сесії";
    KeyView:
        "view all",
        "показать всё",
        "показати все";
    OneOf:
        "1 of {0}",
        "1 из {0}",
        "1 з {0}";
    AnswerPrompt:
        "answer › ",
        "ответ › ",
        "відповідь › ";
    ReasonPrompt:
        "why not (Enter: no reason, Esc: back) › ",
        "почему нет (Enter: без причины, Esc: назад) › ",
        "чому ні (Enter: без причини, Esc: назад) › ";
    LeaveHint:
        "Ctrl-C again leaves; the session is kept",
        "Ctrl-C ещё раз — выход; сессия сохранится",
        "Ctrl-C ще раз — вихід; сесію буде збережено";
    Reconnecting:
        "reconnecting…",
        "переподключение…",
        "повторне з’єднання…";
    Target:
        "to {0}",
        "для {0}",
        "для {0}";
    Planned:
        "planned",
        "по плану",
        "за планом";
    CancelHint:
        "Ctrl-C cancels",
        "Ctrl-C отменяет",
        "Ctrl-C скасовує";
    ContinueWith:
        "continue with: codelab chat --session {0}",
        "продолжить: codelab chat --session {0}",
        "продовжити: codelab chat --session {0}";
    NobodyDecides:
        "{0} waits for a decision, but there is no more input",
        "{0} ждёт решения, но ввод закончился",
        "{0} чекає на рішення, але введення закінчилося";
    NewSession:
        "your next message starts a new session",
        "следующее сообщение начнёт новую сессию",
        "наступне повідомлення почне нову сесію";
    NothingRuns:
        "nothing is running",
        "сейчас ничего не выполняется",
        "зараз нічого не виконується";
    NoPlanToRetry:
        "there is no plan to run again",
        "нет плана, который можно запустить снова",
        "немає плану, який можна запустити знову";
    UnknownCommand:
        "there is no command /{0}; /help lists the commands",
        "команды /{0} нет; /help покажет команды",
        "команди /{0} немає; /help покаже команди";
    NotASession:
        "{0} is not the id of a session",
        "{0} — не идентификатор сессии",
        "{0} — не ідентифікатор сесії";
    TargetSet:
        "messages go to {0}; /switch without a name plans them again",
        "сообщения получает {0}; /switch без имени снова включит план",
        "повідомлення отримує {0}; /switch без імені знову ввімкне план";
    TargetPlanned:
        "messages are planned and go to the agent that fits",
        "сообщения распределяются по плану",
        "повідомлення розподіляються за планом";
    Untitled:
        "a session without a title",
        "сессия без названия",
        "сесія без назви";
    MessageCount:
        "{0} · messages: {1}",
        "{0} · сообщений: {1}",
        "{0} · повідомлень: {1}";
    NothingChanged:
        "nothing was changed; y approves it as it is",
        "ничего не изменено; y разрешит как есть",
        "нічого не змінено; y дозволить як є";
    NotJson:
        "this is not JSON: {0}; e continues with your text",
        "это не JSON: {0}; e продолжит с вашим текстом",
        "це не JSON: {0}; e продовжить з вашим текстом";
    MachineAsksFor:
        "this machine asks for session {0}",
        "эта машина спрашивает для сессии {0}",
        "ця машина запитує для сесії {0}";
    CallUnknown:
        "{0} was running when codelab ended; its outcome is unknown",
        "{0} выполнялся, когда codelab завершился; результат неизвестен",
        "{0} виконувався, коли codelab завершився; результат невідомий";
    CallNotRun:
        "{0} was not run: {1}",
        "{0} не выполнен: {1}",
        "{0} не виконано: {1}";
    RunnerEnded:
        "no more tools are run: {0}",
        "инструменты больше не выполняются: {0}",
        "інструменти більше не виконуються: {0}";
    OutcomeExpired:
        "no tool runner claimed it in time; it did not run",
        "исполнитель не нашёлся вовремя; вызов не выполнен",
        "виконавця не знайшлося вчасно; виклик не виконано";
    OutcomeUnknown:
        "no result came: it may or may not have run, and it is not run again",
        "результат не пришёл: вызов мог выполниться или нет, повторно он не запускается",
        "результат не надійшов: виклик міг виконатися чи ні, повторно його не запускають";
    LateResult:
        "came late, after the call was given up",
        "пришёл поздно, вызов уже был закрыт",
        "надійшов пізно, виклик уже було закрито";
    ExecTakesOver:
        "{0} takes over: {1}",
        "{0} продолжает: {1}",
        "{0} продовжує: {1}";
    ExecPlan:
        "plan of {0} tasks, about {1}",
        "план из задач: {0}, около {1}",
        "план із завдань: {0}, близько {1}";
    ExecDecision:
        "decision: {0}",
        "решение: {0}",
        "рішення: {0}";
    ExecTaskFailed:
        "{0} failed: {1}",
        "{0} не выполнена: {1}",
        "{0} не виконано: {1}";
    ExecTaskSkipped:
        "{0} skipped because {1} failed",
        "{0} пропущена, потому что {1} не выполнена",
        "{0} пропущено, бо {1} не виконано";
    ExecNeedsApproval:
        "needs approval: {0} ({1})",
        "нужно разрешение: {0} ({1})",
        "потрібен дозвіл: {0} ({1})";
    ExecAsks:
        "{0} asks: {1}",
        "{0} спрашивает: {1}",
        "{0} запитує: {1}";
    ExecError:
        "error: {0}",
        "ошибка: {0}",
        "помилка: {0}";
    ExecDetails:
        "details: {0}",
        "подробности: {0}",
        "подробиці: {0}";
    ExecCancelling:
        "cancelling",
        "отмена",
        "скасування";
    ExecAllow:
        "Allow it?",
        "Разрешить?",
        "Дозволити?";
    ExecRun:
        "Run it?",
        "Выполнить?",
        "Виконати?";
    ExecViewAll:
        "[y/N, v shows all]",
        "[y/N, v покажет всё]",
        "[y/N, v покаже все]";
    HelpHelp:
        "this list",
        "этот список",
        "цей список";
    HelpAgents:
        "the agents of the project",
        "агенты проекта",
        "агенти проєкту";
    HelpSwitch:
        "send messages to this agent; without a name they are planned again",
        "отправлять сообщения этому агенту; без имени — снова по плану",
        "надсилати повідомлення цьому агентові; без імені — знову за планом";
    HelpSessions:
        "earlier sessions, or continue with one",
        "прежние сессии, или продолжить одну из них",
        "попередні сесії, або продовжити одну з них";
    HelpPlan:
        "the latest plan, or the result of one of its tasks",
        "последний план или результат одной из его задач",
        "останній план або результат одного з його завдань";
    HelpRetry:
        "run the failed tasks of the latest plan again",
        "запустить снова невыполненные задачи последнего плана",
        "запустити знову невиконані завдання останнього плану";
    HelpCost:
        "tokens and cost",
        "токены и стоимость",
        "токени та вартість";
    HelpCancel:
        "stop the turn; Ctrl-C does the same",
        "остановить ход; Ctrl-C делает то же",
        "зупинити хід; Ctrl-C робить те саме";
    HelpNew:
        "start a new session",
        "начать новую сессию",
        "почати нову сесію";
    HelpQuit:
        "leave; Ctrl-D does the same",
        "выйти; Ctrl-D делает то же",
        "вийти; Ctrl-D робить те саме";
    HelpKeys:
        "Alt-Enter or Ctrl-J: new line · ↑ ↓: earlier inputs · Tab: show what waits for you",
        "Alt-Enter или Ctrl-J: новая строка · ↑ ↓: прежний ввод · Tab: показать, что ждёт вас",
        "Alt-Enter або Ctrl-J: новий рядок · ↑ ↓: попереднє введення · Tab: показати, що чекає на вас";
}
