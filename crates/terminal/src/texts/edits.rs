//! The texts of changes that a person makes in their editor.

texts! {
    EditText;
    KeptUnused:
        "what you wrote in the editor was not used; it is kept in {0}",
        "написанное в редакторе не использовано; оно сохранено в {0}",
        "написане в редакторі не використано; його збережено в {0}";
    KeptForRenewal:
        "what you wrote in the editor was not used; it is kept in {0}, and after /renew e goes on with it",
        "написанное в редакторе не использовано; оно сохранено в {0}, а после /renew клавиша e продолжит с ним",
        "написане в редакторі не використано; його збережено в {0}, а після /renew клавіша e продовжить із ним";
    PlanReasonHint:
        "the planner reads your reason with your next message; /retry plans this request again with it",
        "планировщик прочтёт вашу причину вместе со следующим сообщением; /retry снова составит план этого запроса с её учётом",
        "планувальник прочитає вашу причину разом із наступним повідомленням; /retry знову складе план цього запиту з її врахуванням";
    NotKept:
        "what you wrote in the editor was not used and could not be kept in a file ({0}): {1}",
        "написанное в редакторе не использовано, и сохранить его в файл не удалось ({0}): {1}",
        "написане в редакторі не використано, і зберегти його у файл не вдалося ({0}): {1}";
}
