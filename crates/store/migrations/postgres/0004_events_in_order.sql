-- Events are read by their place alone.
DROP INDEX events_by_turn;
