//! The engine as its users see it: scripts with their transcripts, and a simulator that breaks everything it can.

mod it {
    mod kit;
    mod scripts;
    mod simulation;
}
