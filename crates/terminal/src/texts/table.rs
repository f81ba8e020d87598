//! The texts: English, Russian, Ukrainian.

texts! {
    Text;
    NoSessionHere:
        "there is no session of the folder {0} yet; start one with `codelab chat`, or choose one with `codelab chat --resume`",
        "для папки {0} ещё нет сессии; начните её командой `codelab chat` или выберите другую: `codelab chat --resume`",
        "для теки {0} ще немає сесії; почніть її командою `codelab chat` або виберіть іншу: `codelab chat --resume`";
    PickNeedsTerminal:
        "choosing a session needs a terminal; without one use `codelab chat --continue` or `--session ID`, or send the line `/sessions` and then `/sessions NUMBER`",
        "чтобы выбрать сессию, нужен терминал; без него используйте `codelab chat --continue` или `--session ID` либо отправьте строку `/sessions`, затем `/sessions НОМЕР`",
        "щоб вибрати сесію, потрібен термінал; без нього використайте `codelab chat --continue` або `--session ID` чи надішліть рядок `/sessions`, потім `/sessions НОМЕР`";
    OwnServer:
        "a server inside this program",
        "сервер внутри этой программы",
        "сервер усередині цієї програми";
    NoSandbox:
        "no sandbox: every command needs an approval",
        "песочницы нет: каждая команда требует одобрения",
        "пісочниці немає: кожна команда потребує погодження";
    InSandbox:
        "commands run in the sandbox {0}",
        "команды выполняются в песочнице {0}",
        "команди виконуються в пісочниці {0}";
    ModelIs:
        "model: {0}",
        "модель: {0}",
        "модель: {0}";
    SessionReplaced:
        "the session was replaced on the server; it is shown from the start",
        "сессия на сервере заменена; показываем её с начала",
        "сесію на сервері замінено; показуємо її з початку";
    HistoryCompacted:
        "earlier messages summarised: {0}",
        "прежних сообщений заменено кратким пересказом: {0}",
        "попередніх повідомлень замінено стислим переказом: {0}";
    ModelFallback:
        "{0} cannot answer ({1}); {2} is asked instead",
        "{0} не может ответить ({1}); вместо неё отвечает {2}",
        "{0} не може відповісти ({1}); замість неї відповідає {2}";
    ModelWaiting:
        "the model's server makes the call wait ({0}); next attempt in {1} s",
        "сервер модели просит подождать ({0}); следующая попытка через {1} с",
        "сервер моделі просить зачекати ({0}); наступна спроба через {1} с";
    Thought:
        "thought for {0} characters: {1}",
        "размышление, символов: {0}: {1}",
        "міркування, символів: {0}: {1}";
    EventsPruned:
        "events {0} to {1} are no longer stored",
        "события с {0} по {1} больше не хранятся",
        "події з {0} до {1} більше не зберігаються";
    BecauseFailed:
        "because {0} failed",
        "потому что задача {0} не выполнена",
        "бо завдання {0} не виконано";
    AnswerRestarted:
        "the model started its answer again:",
        "модель начала ответ заново:",
        "модель почала відповідь заново:";
    AnswerCut:
        "the answer was cut off here",
        "ответ обрывается здесь",
        "відповідь обривається тут";
    DescriptionsCut:
        "… long descriptions are cut; v shows all",
        "… длинные описания сокращены; v покажет всё",
        "… довгі описи скорочено; v покаже все";
    MoreLines:
        "… more lines: {0}; v shows all",
        "… ещё строк: {0}; v покажет всё",
        "… ще рядків: {0}; v покаже все";
    EarlierLines:
        "… earlier lines: {0}",
        "… предыдущих строк: {0}",
        "… попередніх рядків: {0}";
    ChosenByKeywords:
        "(chosen by keywords, because the planner gave no plan)",
        "(выбран по ключевым словам: планировщик не составил план)",
        "(обрано за ключовими словами: планувальник не склав план)";
    PlanByKeywords:
        "The planner gave no usable plan. The agent was chosen by keywords.",
        "Планировщик не составил пригодный план. Агент выбран по ключевым словам.",
        "Планувальник не склав придатного плану. Агента обрано за ключовими словами.";
    Completed:
        "completed",
        "выполнено",
        "виконано";
    TaskFailed:
        "failed",
        "ошибка",
        "помилка";
    TaskSkipped:
        "skipped",
        "пропущено",
        "пропущено";
    PlanCompleted:
        "the plan is completed",
        "план выполнен",
        "план виконано";
    PlanPartial:
        "the plan is partly completed",
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
        "queued, position {0}: {1}",
        "в очереди, место {0}: {1}",
        "у черзі, місце {0}: {1}";
    TakenBack:
        "taken out of the queue: {0}",
        "убрано из очереди: {0}",
        "прибрано з черги: {0}";
    Cancelled:
        "cancelled",
        "отменено",
        "скасовано";
    Approved:
        "approved",
        "одобрено",
        "погоджено";
    ApprovedEdited:
        "approved with your changes",
        "одобрено с вашими изменениями",
        "погоджено з вашими змінами";
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
        "price unknown",
        "цена неизвестна",
        "ціна невідома";
    CostAbout:
        "about {0}",
        "около {0}",
        "близько {0}";
    CostAtLeast:
        "at least {0}",
        "не менее {0}",
        "щонайменше {0}";
    ModelCalls:
        "model calls: {0}",
        "вызовов модели: {0}",
        "викликів моделі: {0}";
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
    BudgetTooSmall:
        "The budget is too small for the next model call",
        "Бюджета не хватает на следующий вызов модели",
        "Бюджету не вистачає на наступний виклик моделі";
    Budget:
        "budget",
        "бюджет",
        "бюджет";
    BudgetKeys:
        "y adds the same limit again, e sets a new limit, n ends the turn",
        "y добавит такой же лимит ещё раз, e задаст новый лимит, n завершит ход",
        "y додасть такий самий ліміт ще раз, e задасть новий ліміт, n завершить хід";
    PriceUnknown:
        "The price of {0} is unknown",
        "Цена модели {0} неизвестна",
        "Ціна моделі {0} невідома";
    UnpricedKeys:
        "y continues without counting these calls, n ends the turn",
        "y продолжит без учёта этих вызовов, n завершит ход",
        "y продовжить без урахування цих викликів, n завершить хід";
    ThisSession:
        "this session",
        "эта сессия",
        "ця сесія";
    ThisProject:
        "this project",
        "этот проект",
        "цей проєкт";
    SpentDollars:
        "{0} of {1} spent",
        "потрачено {0} из {1}",
        "витрачено {0} з {1}";
    SpentTokens:
        "{0} of {1} tokens spent",
        "потрачено токенов: {0} из {1}",
        "витрачено токенів: {0} з {1}";
    InFolder:
        "in {0}",
        "в папке {0}",
        "у теці {0}";
    NewFile:
        "a new file",
        "новый файл",
        "новий файл";
    FileElsewhere:
        "the file in this folder is not the one shown: it changed just now, or another client has another one",
        "показан не тот файл, что в этой папке: он только что изменился, или у другого клиента он другой",
        "показано не той файл, що в цій теці: він щойно змінився, або в іншого клієнта він інший";
    FileUnread:
        "the agent has not read this file",
        "агент не читал этот файл",
        "агент не читав цей файл";
    FileOutdated:
        "the file changed since the agent read it; the write will be refused, and the agent told what changed",
        "файл изменился с тех пор, как агент его читал; запись будет отклонена, и агент узнает, что изменилось",
        "файл змінився відтоді, як агент його читав; запис буде відхилено, і агент дізнається, що змінилося";
    DiffCut:
        "the difference is longer; the rest is not shown",
        "различие длиннее; остальное не показано",
        "відмінність довша; решту не показано";
    NoFileYet:
        "there is no such file yet",
        "такого файла ещё нет",
        "такого файлу ще немає";
    EditMisfit:
        "an edit does not fit the file as it is now",
        "замена не подходит к текущему содержимому файла",
        "заміна не підходить до поточного вмісту файлу";
    NoNewline:
        "no newline at the end",
        "в конце нет перевода строки",
        "у кінці немає переведення рядка";
    NothingChanges:
        "nothing changes",
        "ничего не меняется",
        "нічого не змінюється";
    FileTooLarge:
        "the file is too large to be compared; this is all of the new content",
        "файл слишком большой для сравнения; показано всё новое содержимое",
        "файл завеликий для порівняння; показано весь новий вміст";
    FileUnreadable:
        "the file cannot be read",
        "файл не удаётся прочитать",
        "файл не вдається прочитати";
    EditorNotStarted:
        "the editor could not be started: {0}",
        "редактор не запустился: {0}",
        "редактор не запустився: {0}";
    EditorFailed:
        "the editor ended with an error; nothing was changed",
        "редактор завершился с ошибкой; ничего не изменено",
        "редактор завершився з помилкою; нічого не змінено";
    EditedNotUtf8:
        "the text is not UTF-8; nothing was changed",
        "текст не в UTF-8; ничего не изменено",
        "текст не в UTF-8; нічого не змінено";
    EditingNeedsTerminal:
        "editing needs a terminal",
        "для редактирования нужен терминал",
        "для редагування потрібен термінал";
    Forged:
        "This does not match the server's digest. It can only be rejected.",
        "Это не совпадает с контрольной суммой сервера. Это можно только отклонить.",
        "Це не збігається з контрольною сумою сервера. Це можна лише відхилити.";
    WaitsForYou:
        "waiting for you",
        "ждёт вас",
        "чекає на вас";
    Writes:
        "writing",
        "пишет",
        "пише";
    AndMore:
        "… and {0} more",
        "… и ещё {0}",
        "… і ще {0}";
    MoreTasks:
        "… more tasks: {0}; /plan shows all",
        "… ещё задач: {0}; /plan покажет все",
        "… ще завдань: {0}; /plan покаже всі";
    Plan:
        "Plan",
        "План",
        "План";
    TaskCount:
        "tasks: {0}",
        "задач: {0}",
        "завдань: {0}";
    TasksCompleted:
        "tasks completed: {0} of {1}",
        "выполнено задач: {0} из {1}",
        "виконано завдань: {0} з {1}";
    AfterTasks:
        "after {0}",
        "после {0}",
        "після {0}";
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
    MoreWaits:
        "{0} more wait for you. Tab shows the next one.",
        "Вас ждёт ещё {0}. Tab покажет следующее.",
        "На вас чекає ще {0}. Tab покаже наступне.";
    SomethingWaits:
        "Something is waiting for your decision. Tab turns to it and keeps your draft.",
        "Нужно ваше решение. Tab перейдёт к нему и сохранит черновик.",
        "Потрібне ваше рішення. Tab перейде до нього і збереже чернетку.";
    TooLow:
        "make the terminal larger to decide",
        "увеличьте окно терминала, чтобы решить",
        "збільште вікно термінала, щоб вирішити";
    TimeLeft:
        "{0} left to decide",
        "на решение осталось {0}",
        "на рішення залишилося {0}";
    KeyApprove:
        "approve",
        "одобрить",
        "погодити";
    KeyEdit:
        "edit",
        "изменить",
        "змінити";
    KeyReject:
        "reject",
        "отклонить",
        "відхилити";
    KeyView:
        "view all",
        "показать всё",
        "показати все";
    OneOf:
        "1 of {0}, Tab: the next",
        "1 из {0}, Tab: следующее",
        "1 з {0}, Tab: наступне";
    AnswerPrompt:
        "answer › ",
        "ответ › ",
        "відповідь › ";
    OptionPrompt:
        "a number or your own answer › ",
        "номер или свой ответ › ",
        "номер або своя відповідь › ";
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
        "continue with: codelab chat --session {0}{1}",
        "продолжить: codelab chat --session {0}{1}",
        "продовжити: codelab chat --session {0}{1}";
    LeftWaiting:
        "this still waits for your decision: {0} are left, then it counts as rejected; it comes back with the line below",
        "это ещё ждёт вашего решения: осталось {0}, затем оно считается отклонённым; вернуться можно строкой ниже",
        "це ще чекає на ваше рішення: залишилося {0}, потім воно вважається відхиленим; повернутися можна рядком нижче";
    LeftOpen:
        "this still waits for you; it comes back with the line below",
        "это ещё ждёт вас; вернуться можно строкой ниже",
        "це ще чекає на вас; повернутися можна рядком нижче";
    LeftLocal:
        "this machine asked, and nobody answered: the call does not run",
        "эта машина спрашивала, но ответа нет: вызов не выполнится",
        "ця машина запитувала, але відповіді немає: виклик не виконається";
    NobodyDecides:
        "{0} is waiting for a decision, but there is no more input",
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
    NothingToRenew:
        "nothing waits for a decision",
        "ничто не ждёт решения",
        "ніщо не чекає на рішення";
    RenewHint:
        "/renew asks about the plan again",
        "/renew снова спросит о плане",
        "/renew знову запитає про план";
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
        "для сообщений составляется план",
        "для повідомлень складається план";
    NoSuchAgent:
        "there is no agent {0}; the agents are: {1}",
        "агента {0} нет; агенты: {1}",
        "агента {0} немає; агенти: {1}";
    NoPlanYet:
        "there is no plan yet",
        "плана ещё нет",
        "плану ще немає";
    NoSuchTask:
        "the plan has no task {0}",
        "в плане нет задачи {0}",
        "у плані немає завдання {0}";
    NoResultYet:
        "(no result yet)",
        "(результата ещё нет)",
        "(результату ще немає)";
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
        "ничего не изменено; y одобрит как есть",
        "нічого не змінено; y погодить як є";
    NotJson:
        "this is not JSON: {0}; e continues with your text",
        "это не JSON: {0}; e продолжит с вашим текстом",
        "це не JSON: {0}; e продовжить з вашим текстом";
    MachineAsksFor:
        "this machine asks about a call of session {0}",
        "вопрос этой машины для сессии {0}",
        "запитання цієї машини для сесії {0}";
    CallUnknown:
        "{0} was running when codelab ended; its outcome is unknown",
        "{0} выполнялся, когда codelab завершился; результат неизвестен",
        "{0} виконувався, коли codelab завершився; результат невідомий";
    CallNotRun:
        "{0} was not run: {1}",
        "{0} не выполнен: {1}",
        "{0} не виконано: {1}";
    RunnerEnded:
        "tools no longer run here: {0}",
        "инструменты здесь больше не выполняются: {0}",
        "інструменти тут більше не виконуються: {0}";
    ExecTakesOver:
        "{0} takes over: {1}",
        "{0} продолжает: {1}",
        "{0} продовжує: {1}";
    ExecPlan:
        "plan, tasks: {0}, {1}",
        "план, задач: {0}, {1}",
        "план, завдань: {0}, {1}";
    ExecWarning:
        "warning: {0}", "внимание: {0}", "увага: {0}";
    ExecDecision:
        "decision: {0}", "решение: {0}", "рішення: {0}";
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
        "нужно одобрение: {0} ({1})",
        "потрібне погодження: {0} ({1})";
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
    ExecApprove:
        "Approve it?",
        "Одобрить?",
        "Погодити?";
    ExecRun:
        "Run it?",
        "Выполнить?",
        "Виконати?";
    ExecWhyNot:
        "Why not? (Enter: no reason) ",
        "Почему нет? (Enter: без причины) ",
        "Чому ні? (Enter: без причини) ";
    ExecMoreLines:
        "… more lines: {0}",
        "… ещё строк: {0}",
        "… ще рядків: {0}";
    ExecViewAll:
        "[y/N, v shows all]",
        "[y/N, v покажет всё]",
        "[y/N, v покаже все]";
    ModelChosen:
        "this session uses {0}", "эта сессия использует {0}", "ця сесія використовує {0}";
    ModelOfAgents:
        "each agent uses its own model",
        "каждый агент использует свою модель",
        "кожен агент використовує свою модель";
    ModelNeedsSession:
        "send a message first: the model is chosen for a session",
        "сначала отправьте сообщение: модель выбирается для сессии",
        "спершу надішліть повідомлення: модель вибирається для сесії";
}
