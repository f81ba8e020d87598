//! The texts of what a folder brings: instructions, skills and commands, and what waits for trust.

texts! {
    FolderText;
    Waits:
        "waiting for your trust, so it counts for nothing: {0}; look at it with `codelab trust{1}`",
        "ждёт вашего доверия и пока ни на что не влияет: {0}; посмотрите командой `codelab trust{1}`",
        "чекає на вашу довіру і поки ні на що не впливає: {0}; перегляньте командою `codelab trust{1}`";
    WaitsHere:
        "waiting for your trust, so it counts for nothing: {0}; /trust shows it and asks",
        "ждёт вашего доверия и пока ни на что не влияет: {0}; /trust покажет и спросит",
        "чекає на вашу довіру і поки ні на що не впливає: {0}; /trust покаже й запитає";
    AndMore:
        "{0} and {1} more",
        "{0} и ещё {1}",
        "{0} і ще {1}";
    PassedOver:
        "passed over: {0}",
        "пропущено: {0}",
        "пропущено: {0}";
    Counts:
        "counts from now on: {0}",
        "теперь учитывается: {0}",
        "відтепер враховується: {0}";
    HelpTrust:
        "look at what this folder brings and trust it, one content after the other",
        "посмотреть, что приносит эта папка, и довериться этому по одному",
        "переглянути, що приносить ця тека, і довіритися цьому по одному";
    HelpInstructions:
        "what models are told of this folder, and what waits for your trust",
        "что сообщается моделям об этой папке и что ждёт вашего доверия",
        "що повідомляється моделям про цю теку і що чекає на вашу довіру";
    HelpInit:
        "let an agent write a first AGENTS.md; `/init improve` changes the one that is there",
        "поручить агенту написать первый AGENTS.md; `/init improve` изменит имеющийся",
        "доручити агентові написати перший AGENTS.md; `/init improve` змінить наявний";
    HelpFolderCommands:
        "commands of this folder, which you trusted",
        "команды этой папки, которым вы доверились",
        "команди цієї теки, яким ви довірилися";
    NothingWaits:
        "nothing of this folder waits for your trust",
        "ничто в этой папке не ждёт вашего доверия",
        "ніщо в цій теці не чекає на вашу довіру";
    IsNew:
        "not trusted yet",
        "доверия ещё не было",
        "довіри ще не було";
    IsChanged:
        "changed since it was trusted",
        "изменилось с тех пор, как ему доверились",
        "змінилося відтоді, як йому довірилися";
    KindMcpServers:
        "MCP servers: programs that are started with your rights",
        "серверы MCP: программы, которые запускаются с вашими правами",
        "сервери MCP: програми, які запускаються з вашими правами";
    KindInstructions:
        "instructions for models",
        "указания для моделей",
        "вказівки для моделей";
    KindSkill:
        "skill for models",
        "навык для моделей",
        "навичка для моделей";
    KindCommand:
        "command for this terminal",
        "команда для этого терминала",
        "команда для цього термінала";
    SkillParts:
        "files of its folder: {0}",
        "файлы её папки: {0}",
        "файли її теки: {0}";
    AskTrust:
        "trust this content of {0}? y and Enter: yes · n and Enter: not now",
        "доверять этому содержимому {0}? y и Enter: да · n и Enter: не сейчас",
        "довіряти цьому вмісту {0}? y і Enter: так · n і Enter: не зараз";
    Trusted:
        "{0} is trusted",
        "{0}: доверие есть",
        "{0}: довіра є";
    NotNow:
        "{0} is not trusted, so it counts for nothing",
        "{0}: доверия нет, поэтому ни на что не влияет",
        "{0}: довіри немає, тому ні на що не впливає";
    ChangedMeanwhile:
        "{0} changed while you looked at it; it is not trusted, /trust shows the new content",
        "{0} изменилось, пока вы смотрели; доверия нет, /trust покажет новое содержимое",
        "{0} змінилося, поки ви дивилися; довіри немає, /trust покаже новий вміст";
    NotStored:
        "your trust could not be stored: {0}",
        "не удалось записать ваше доверие: {0}",
        "не вдалося записати вашу довіру: {0}";
    Told:
        "told to models:",
        "сообщается моделям:",
        "повідомляється моделям:";
    ToldAlways:
        "always",
        "всегда",
        "завжди";
    ToldBeneath:
        "once a file beneath {0} is touched",
        "когда затронут файл внутри {0}",
        "коли зачеплено файл усередині {0}";
    SkillsTold:
        "skills that models can use:",
        "навыки, доступные моделям:",
        "навички, доступні моделям:";
    CommandsHere:
        "commands of this folder:",
        "команды этой папки:",
        "команди цієї теки:";
    WaitingHere:
        "waiting for your trust (/trust):",
        "ждёт вашего доверия (/trust):",
        "чекає на вашу довіру (/trust):";
    NothingTold:
        "this folder brings nothing; /init lets an agent write an AGENTS.md",
        "эта папка ничего не приносит; /init поручит агенту написать AGENTS.md",
        "ця тека нічого не приносить; /init доручить агентові написати AGENTS.md";
    InitExists:
        "this folder has an {0} already; `/init improve` asks an agent to improve it",
        "в этой папке уже есть {0}; `/init improve` попросит агента улучшить его",
        "у цій теці вже є {0}; `/init improve` попросить агента поліпшити його";
}
