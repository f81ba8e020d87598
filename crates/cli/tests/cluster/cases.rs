//! Single cases that need no rounds.
