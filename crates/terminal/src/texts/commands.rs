//! The texts of commands that a person types in `codelab chat`.

texts! {
    CommandText;
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
        "run the last turn again, or the failed tasks of its plan",
        "выполнить последний ход снова или невыполненные задачи его плана",
        "виконати останній хід знову або невиконані завдання його плану";
    HelpRenew:
        "give what waits for you its full time again, also a plan that expired",
        "снова дать всё время на решение, в том числе о просроченном плане",
        "знову дати весь час на рішення, зокрема щодо простроченого плану";
    HelpModel:
        "list the models, or choose one for this session (-: each agent's own)",
        "показать модели или выбрать одну для этой сессии (-: своя у каждого агента)",
        "показати моделі або вибрати одну для цієї сесії (-: своя в кожного агента)";
    NoSuchModel:
        "the providers do not offer {0}; they offer: {1}; `/model {0}!` chooses it all the same",
        "провайдеры не предлагают {0}; доступны: {1}; `/model {0}!` выберет её всё равно",
        "провайдери не пропонують {0}; доступні: {1}; `/model {0}!` вибере її попри це";
    NothingToRetry:
        "there is nothing to run again: {0}",
        "повторять нечего: {0}",
        "повторювати нічого: {0}";
    RetryLater:
        "a turn is running; /retry works when it has ended",
        "идёт ход; /retry сработает, когда он закончится",
        "триває хід; /retry спрацює, коли він закінчиться";
    NothingSaid:
        "nothing was said in this session yet",
        "в этой сессии ещё ничего не сказано",
        "у цій сесії ще нічого не сказано";
    InOtherFolder:
        "in {0}",
        "в {0}",
        "у {0}";
    NotOfChat:
        "not from a chat on this machine",
        "не из чата на этой машине",
        "не з чату на цій машині";
    MoreSessions:
        "the newest {0} of {1} sessions; `codelab chat --session ID` continues an older one",
        "последние {0} из {1} сессий; более старую продолжит `codelab chat --session ID`",
        "останні {0} з {1} сесій; старішу продовжить `codelab chat --session ID`";
    ExecApproveHint:
        "this needs an approval, and nobody gives one: --approve ask asks you at a terminal, edits lets writes pass, all grants everything",
        "нужно одобрение, но дать его некому: --approve ask спросит вас в терминале, edits пропустит запись файлов, all разрешит всё",
        "потрібне погодження, але дати його нікому: --approve ask запитає вас у терміналі, edits пропустить запис файлів, all дозволить усе";
    HelpCost:
        "tokens and cost",
        "токены и стоимость",
        "токени та вартість";
    HelpCancel:
        "cancel the turn; Ctrl-C does the same",
        "отменить ход; Ctrl-C делает то же",
        "скасувати хід; Ctrl-C робить те саме";
    HelpNew:
        "start a new session",
        "начать новую сессию",
        "почати нову сесію";
    HelpQuit:
        "leave; Ctrl-D does the same",
        "выйти; Ctrl-D делает то же",
        "вийти; Ctrl-D робить те саме";
    StoppingTurn:
        "stopping the turn, because its server ends with this program; Ctrl-C leaves at once",
        "останавливаем ход: его сервер завершается вместе с этой программой; Ctrl-C — выйти сразу",
        "зупиняємо хід: його сервер завершується разом із цією програмою; Ctrl-C — вийти одразу";
    StoppingServer:
        "the server inside this program ends what is under way (at most {0} s)",
        "сервер внутри этой программы завершает начатое (не дольше {0} с)",
        "сервер усередині цієї програми завершує розпочате (не довше {0} с)";
    HelpKeys:
        "Alt-Enter or Ctrl-J: new line · ↑ ↓: earlier inputs · Tab: finish a name, or show what is waiting for you",
        "Alt-Enter или Ctrl-J: новая строка · ↑ ↓: прежний ввод · Tab: дописать имя или показать, что ждёт вас",
        "Alt-Enter або Ctrl-J: новий рядок · ↑ ↓: попереднє введення · Tab: дописати ім’я або показати, що чекає на вас";
    HelpDecide:
        "when something waits: y approves it, e opens it in your editor first, n rejects it with a reason, a allows it always in this session (/allowed takes it back), v shows all of it",
        "когда что-то ждёт решения: y одобрит, e сначала откроет в редакторе, n отклонит с причиной, a разрешит всегда в этой сессии (отозвать: /allowed), v покажет всё",
        "коли щось чекає на рішення: y погодить, e спершу відкриє в редакторі, n відхилить із причиною, a дозволить завжди в цій сесії (відкликати: /allowed), v покаже все";
    SessionsHint:
        "/sessions NUMBER continues a session",
        "/sessions НОМЕР продолжит сессию",
        "/sessions НОМЕР продовжить сесію";
    PickPrompt:
        "number › ",
        "номер › ",
        "номер › ";
    PickHint:
        "↑ ↓ or a number, then Enter: continue this session · Esc: leave",
        "↑ ↓ или номер, затем Enter: продолжить эту сессию · Esc: выйти",
        "↑ ↓ або номер, потім Enter: продовжити цю сесію · Esc: вийти";
    NothingToPick:
        "there is no earlier session; your first message starts one",
        "прежних сессий нет; первое сообщение начнёт новую",
        "попередніх сесій немає; перше повідомлення почне нову";
    Seconds:
        " · {0} s",
        " · {0} с",
        " · {0} с";
    HelpDiff:
        "what changed in the folder since the last commit",
        "что изменилось в папке после последнего коммита",
        "що змінилося в теці після останнього коміту";
    HelpExport:
        "write the session to a Markdown file",
        "записать сессию в файл Markdown",
        "записати сесію у файл Markdown";
    HelpFile:
        "in a message: send this file of the folder with it; a pasted path of an image does so too",
        "в сообщении: отправить с ним этот файл папки; так же действует вставленный путь к изображению",
        "у повідомленні: надіслати з ним цей файл теки; так само діє вставлений шлях до зображення";
    HelpShell:
        "run a command of yours in the folder; the model does not see it",
        "выполнить вашу команду в папке; модель этого не видит",
        "виконати вашу команду в теці; модель цього не бачить";
    HelpOwn:
        "your own commands, from {0}",
        "ваши собственные команды из {0}",
        "ваші власні команди з {0}";
    Context:
        "context {0}",
        "контекст {0}",
        "контекст {0}";
    ContextShare:
        "context {0} % of {1}",
        "контекст {0} % из {1}",
        "контекст {0} % з {1}";
    HelpApprove:
        "what passes without a question: ask, or edits (writes in this folder pass)",
        "что проходит без вопроса: ask или edits (запись файлов в этой папке)",
        "що проходить без запитання: ask або edits (запис файлів у цій теці)";
    ModeAsk:
        "writes and commands ask you first, except what /allowed lists; /approve edits lets writes in this folder pass",
        "запись файлов и команды сначала спрашивают, кроме того, что перечисляет /allowed; /approve edits пропускает запись в этой папке",
        "запис файлів і команди спершу питають, крім того, що перелічує /allowed; /approve edits пропускає запис у цій теці";
    ModeEdits:
        "writes in this folder pass without a question; commands, protected paths and files that the agent has not read still ask; /approve ask takes it back",
        "запись файлов в этой папке проходит без вопроса; команды, защищённые пути и файлы, которые агент не читал, всё равно спрашивают; /approve ask отменяет это",
        "запис файлів у цій теці проходить без запитання; команди, захищені шляхи та файли, яких агент не читав, однаково питають; /approve ask скасовує це";
    NoSuchMode:
        "there is no mode {0}: choose ask or edits",
        "нет режима {0}: выберите ask или edits",
        "немає режиму {0}: виберіть ask або edits";
    EditsPass:
        "writes pass",
        "запись без вопроса",
        "запис без запитання";
    HelpAllowed:
        "what you allowed for the rest of this session, or take one back",
        "что вы разрешили до конца сессии, или отозвать одно из этого",
        "що ви дозволили до кінця сесії, або відкликати щось із цього";
    NothingAllowed:
        "nothing is allowed for the rest of this session; you are asked about each call that needs an approval",
        "до конца сессии ничего не разрешено; о каждом вызове, которому нужно согласие, вас спросят",
        "до кінця сесії нічого не дозволено; про кожен виклик, якому потрібна згода, вас спитають";
    NotAllowed:
        "{0} is not in the last list; /allowed shows it",
        "{0} нет в последнем списке; его покажет /allowed",
        "{0} немає в останньому списку; його покаже /allowed";
    AllowedHint:
        "/allowed -N takes one back: such calls ask you again",
        "/allowed -N отзывает одно из них: о таких вызовах снова спросят",
        "/allowed -N відкликає щось із них: про такі виклики знову спитають";
    AllowedWrites:
        "writes of files in the workspace",
        "запись файлов в рабочей папке",
        "запис файлів у робочій теці";
    AllowedCommand:
        "the command `{0}`",
        "команда `{0}`",
        "команда `{0}`";
    AllowedCommandIn:
        "the command `{0}` in {1}",
        "команда `{0}` в {1}",
        "команда `{0}` у {1}";
    AllowedMcpTool:
        "the tool {0} of the MCP server {1}, with any arguments",
        "инструмент {0} сервера MCP {1} с любыми аргументами",
        "інструмент {0} сервера MCP {1} з будь-якими аргументами";
    Revoked:
        "taken back: {0}; such calls ask again",
        "отозвано: {0}; о таких вызовах снова спросят",
        "відкликано: {0}; про такі виклики знову спитають";
    HelpSteer:
        "say this to the agents at work: they hear it after their next tool results; Alt-S does the same",
        "сказать это агентам, которые сейчас работают: они узнают после ближайших результатов инструментов; Alt-S делает то же",
        "сказати це агентам, які зараз працюють: вони почують після найближчих результатів інструментів; Alt-S робить те саме";
    HelpFork:
        "go on in a new session: with everything said so far, or with what was before a message",
        "продолжить в новой сессии: со всем сказанным или с тем, что было до сообщения",
        "продовжити в новій сесії: з усім сказаним або з тим, що було до повідомлення";
    NothingToFork:
        "nothing was said yet that a new session could begin with",
        "ещё ничего не сказано, с чего могла бы начаться новая сессия",
        "ще нічого не сказано, з чого могла б початися нова сесія";
    SteerWhat:
        "write what the agents should hear: /steer TEXT",
        "напишите, что должны услышать агенты: /steer ТЕКСТ",
        "напишіть, що мають почути агенти: /steer ТЕКСТ";
    Steers:
        "the agents hear this after their next tool results: {0}",
        "агенты узнают это после ближайших результатов инструментов: {0}",
        "агенти почують це після найближчих результатів інструментів: {0}";
    WritesPaths:
        "writes {0}",
        "пишет {0}",
        "пише {0}";
    SameFiles:
        "waits for {0}: same files",
        "ждёт {0}: те же файлы",
        "чекає на {0}: ті самі файли";
    HelpCompact:
        "sum up what was said, to free the model's context",
        "заменить сказанное кратким пересказом, чтобы освободить контекст модели",
        "замінити сказане стислим переказом, щоб звільнити контекст моделі";
    HelpRewind:
        "take back files, messages or both since a message (Esc Esc too)",
        "отменить файлы, сообщения или всё с выбранного сообщения (также Esc Esc)",
        "скасувати файли, повідомлення або все з вибраного повідомлення (також Esc Esc)";
    HelpRedo:
        "take the last rewind back",
        "отменить последний откат",
        "скасувати останній відкат";
    Compacting:
        "summing up the session",
        "составляется краткий пересказ сессии",
        "складається стислий переказ сесії";
    CompactLater:
        "a turn is running; /compact works when it has ended",
        "идёт ход; /compact сработает, когда он закончится",
        "триває хід; /compact спрацює, коли він закінчиться";
    NothingToCompact:
        "there is nothing new to sum up",
        "пересказывать пока нечего",
        "переказувати поки нічого";
    NoBudgetToCompact:
        "the budget has no room for a summary now",
        "в бюджете сейчас нет места для пересказа",
        "у бюджеті зараз немає місця для переказу";
    CompactionStopped:
        "the summary was stopped; the session stays as it is",
        "пересказ остановлен; сессия осталась как была",
        "переказ зупинено; сесія лишилася як була";
    ImagesGoAlong:
        "images that go along: {0}",
        "с сообщением уйдут изображения: {0}",
        "з повідомленням підуть зображення: {0}";
    TooManyFiles:
        "a message can name at most {0} files; it was not sent",
        "в сообщении можно назвать не более {0} файлов; оно не отправлено",
        "у повідомленні можна назвати щонайбільше {0} файлів; його не надіслано";
    TooManyImages:
        "a message can name at most {0} images; it was not sent",
        "в сообщении можно назвать не более {0} изображений; оно не отправлено",
        "у повідомленні можна назвати щонайбільше {0} зображень; його не надіслано";
    ImageInAnswer:
        "answer the questions before this one first: an image goes with the answer to the oldest one",
        "сначала ответьте на прежние вопросы: изображение уйдёт с ответом на самый старый",
        "спершу відповідайте на попередні питання: зображення піде з відповіддю на найстаріше";
    FilesTooLarge:
        "the named files have more than {0} KiB together; the message was not sent",
        "названные файлы вместе больше {0} КиБ; сообщение не отправлено",
        "названі файли разом більші за {0} КіБ; повідомлення не надіслано";
    FileNotSent:
        "{0} cannot be sent, so the message was not sent: {1}",
        "{0} нельзя отправить, поэтому сообщение не отправлено: {1}",
        "{0} не можна надіслати, тому повідомлення не надіслано: {1}";
    FileMissing:
        "there is no file {0} in the folder, so the message was not sent; for a text, write `@{0}` between backquotes",
        "в папке нет файла {0}, поэтому сообщение не отправлено; если это просто текст, напишите `@{0}` в обратных кавычках",
        "у теці немає файлу {0}, тому повідомлення не надіслано; якщо це просто текст, напишіть `@{0}` у зворотних лапках";
    SentWith:
        "sent with: {0}",
        "отправлено с файлами: {0}",
        "надіслано з файлами: {0}";
    CommandNotStarted:
        "the command could not be started: {0}",
        "команда не запустилась: {0}",
        "команда не запустилася: {0}";
    CommandKilled:
        "ended by a signal",
        "завершена сигналом",
        "завершено сигналом";
    CommandStopped:
        "stopped",
        "остановлена",
        "зупинено";
    CommandEnded:
        "{0} · the model does not see this",
        "{0} · модель этого не видит",
        "{0} · модель цього не бачить";
    CallClosed:
        "the call was closed meanwhile, so your decision has no effect",
        "вызов тем временем закрыт, ваше решение ни на что не влияет",
        "виклик тим часом закрито, ваше рішення ні на що не впливає";
    CommandWorks:
        "your command is running · Ctrl-C stops it",
        "ваша команда выполняется · Ctrl-C остановит её",
        "ваша команда виконується · Ctrl-C зупинить її";
    CommandRuns:
        "another command is still running; Ctrl-C stops it",
        "другая команда ещё выполняется; Ctrl-C остановит её",
        "інша команда ще виконується; Ctrl-C зупинить її";
    LinesLeftOut:
        "… lines left out: {0}",
        "… пропущено строк: {0}",
        "… пропущено рядків: {0}";
    GitFailed:
        "git cannot show the changes: {0}",
        "git не может показать изменения: {0}",
        "git не може показати зміни: {0}";
    GitRunsPrograms:
        "git was not run, because the settings of this repository make it start programs: {0}",
        "git не запущен: настройки этого репозитория заставляют его запускать программы: {0}",
        "git не запущено: налаштування цього репозиторію змушують його запускати програми: {0}";
    Untracked:
        "new files: {0}",
        "новые файлы: {0}",
        "нові файли: {0}";
    NoChanges:
        "nothing has changed since the last commit",
        "после последнего коммита ничего не изменилось",
        "після останнього коміту нічого не змінилося";
    You:
        "You",
        "Вы",
        "Ви";
    ContentNotKept:
        "what the file held before is not part of the session",
        "прежнее содержимое файла в сессии не хранится",
        "попередній вміст файлу в сесії не зберігається";
    NoSessionYet:
        "there is no session yet; your first message starts one",
        "сессии ещё нет; её начнёт ваше первое сообщение",
        "сесії ще немає; її почне ваше перше повідомлення";
    Exported:
        "the session was written to {0}",
        "сессия записана в {0}",
        "сесію записано у {0}";
    NotExported:
        "the session could not be written: {0}",
        "сессию не удалось записать: {0}",
        "сесію не вдалося записати: {0}";
    OwnUnreadable:
        "/{0} cannot be read: {1}",
        "/{0} не читается: {1}",
        "/{0} не читається: {1}";
    OtherProject:
        "this session belongs to project {0}; to run its tools, start: codelab work --workspace DIR --project {0}{1}",
        "эта сессия принадлежит проекту {0}; чтобы выполнять её инструменты, запустите: codelab work --workspace DIR --project {0}{1}",
        "ця сесія належить проєкту {0}; щоб виконувати її інструменти, запустіть: codelab work --workspace DIR --project {0}{1}";
}
