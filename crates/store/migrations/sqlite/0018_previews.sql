-- What a write that waits for a decision would do to the file as it is now, as JSON; NULL where no
-- client has told.
ALTER TABLE pending_approvals ADD COLUMN preview TEXT;
