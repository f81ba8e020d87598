-- The words of each title (`ord` 0) and message of project sessions, as `search.rs` cuts and writes them. The index only
-- has to split them at spaces: every other character belongs to a word.
CREATE TABLE session_texts (
    id          INTEGER NOT NULL PRIMARY KEY,
    session_key BIGINT  NOT NULL,
    ord         BIGINT  NOT NULL,
    words       TEXT    NOT NULL,
    UNIQUE (session_key, ord)
);
CREATE VIRTUAL TABLE session_search USING fts5 (
    words, content = 'session_texts', content_rowid = 'id', detail = none, columnsize = 0,
    tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* P* S* C*'"
);
-- Deleted words leave the index when it is made anew before the file is rewritten (`sqlite/erase.rs`). `secure-delete` would
-- remove them at once, word by word, and hold up all commits for seconds.
CREATE TRIGGER session_texts_added AFTER INSERT ON session_texts BEGIN
    INSERT INTO session_search (rowid, words) VALUES (new.id, new.words);
END;
CREATE TRIGGER session_texts_deleted AFTER DELETE ON session_texts BEGIN
    INSERT INTO session_search (session_search, rowid, words) VALUES ('delete', old.id, old.words);
END;
CREATE TRIGGER session_texts_replaced AFTER UPDATE OF words ON session_texts BEGIN
    INSERT INTO session_search (session_search, rowid, words) VALUES ('delete', old.id, old.words);
    INSERT INTO session_search (rowid, words) VALUES (new.id, new.words);
END;
