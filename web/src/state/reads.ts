/** Numbers the reads of one list, because answers can come in another order than they were asked for. */
export class Reads {
  private asked = 0;
  private accepted = 0;

  /** Begins a read. The result tells, when the answer is there, whether it is newer than all that was accepted. */
  begin(): () => boolean {
    this.asked += 1;
    const number = this.asked;
    return () => {
      if (number <= this.accepted) return false;
      this.accepted = number;
      return true;
    };
  }

  /** Something changed: answers to all that was asked so far may not show it. */
  outdate() {
    this.accepted = this.asked;
  }
}
