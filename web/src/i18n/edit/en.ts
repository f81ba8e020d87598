// Texts about messages that are changed and sent again, and about those that wait.

export const editEn = {
  "edit.open": "Edit and send again",
  "edit.label": "Your message, to change",
  "edit.here": "Send here",
  "edit.hereHint": "Takes back everything from this message on, then sends the new text. You can undo it.",
  "edit.fork": "Send in a fork",
  "edit.forkHint": "A new session with everything before this message. This one and its files stay as they are.",
  "edit.files": "Take files back too",
  "edit.busy": "A turn is running. Stop it to send here, or send in a fork.",
  "edit.slow": "Taking back needs longer. Your text is in the form below: send it when the files are back.",
  "edit.notBack": "The files could not be taken back, so nothing was sent.",
  "queue.steerIt": "Steer with it",
  "queue.steerItHint": "The agents at work hear it after their next tool results, not after the turn",
  "queue.letWait": "Let it wait",
  "queue.letWaitHint": "It is said when the turn has ended",
  "queue.takeBack": "Take this message out of the queue",
};
