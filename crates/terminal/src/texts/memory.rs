//! The texts of what agents remember.

texts! {
    MemoryText;
    OtherFolders:
        "the agents of this project also remember work in other folders; /memory shows it",
        "агенты этого проекта помнят и работу в других папках; её покажет /memory",
        "агенти цього проєкту пам’ятають і роботу в інших теках; її покаже /memory";
    Count:
        "memories: {0}",
        "воспоминаний: {0}",
        "спогадів: {0}";
    Explained:
        "project {0}: what an agent remembers of any session and folder of the project can go into its prompts here; /memory AGENT shows the newest, /memory forget AGENT deletes all; a project of its own (--project) keeps a folder apart",
        "проект {0}: то, что агент помнит из любых сессий и папок проекта, может попасть в его запросы и здесь; /memory АГЕНТ покажет новейшее, /memory forget АГЕНТ удалит всё; отдельный проект (--project) изолирует папку",
        "проєкт {0}: те, що агент пам’ятає з будь-яких сесій і тек проєкту, може потрапити в його запити й тут; /memory АГЕНТ покаже найновіше, /memory forget АГЕНТ видалить усе; окремий проєкт (--project) ізолює теку";
    Shown:
        "shown: {0} of {1}, newest first",
        "показано: {0} из {1}, сначала новые",
        "показано: {0} з {1}, спершу нові";
    Forgotten:
        "{0} remembers nothing any more; the sessions stay",
        "{0} больше ничего не помнит; сессии остались",
        "{0} більше нічого не пам’ятає; сесії залишилися";
    Here:
        "this folder",
        "эта папка",
        "ця тека";
    Elsewhere:
        "another place",
        "другое место",
        "інше місце";
    HelpMemory:
        "what the agents of this project remember, and of which folders; forget AGENT deletes it",
        "что помнят агенты этого проекта и о каких папках; forget АГЕНТ удалит это",
        "що пам’ятають агенти цього проєкту і про які теки; forget АГЕНТ видалить це";
}
