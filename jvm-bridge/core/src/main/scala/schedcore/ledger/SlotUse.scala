package schedcore
package ledger

/** Slots that are in use now and the slot time used so far, in slot-milliseconds. */
final class SlotClock {
  private var now = 0
  private var overMs = 0L
  private var startsMs = 0L // sum of the start times of the slots in use

  def slots: Int = now

  def start(slots: Int, atMs: Long): Unit = {
    now += slots
    startsMs += slots * atMs
  }

  /** @return the slot time that they were in use for */
  def stop(slots: Int, startedMs: Long, atMs: Long): Long = {
    val usedMs = slots * math.max(0L, atMs - startedMs)
    now -= slots
    startsMs -= slots * startedMs
    overMs += usedMs
    usedMs
  }

  /** Takes back slot time that counts elsewhere. */
  def less(slotMs: Long): Unit = overMs -= slotMs

  def usedMs(atMs: Long): Long = overMs + math.max(0L, now * atMs - startsMs)
}

/** What one job has used: by originals that were not evicted, by copies, and by attempts whose work an eviction lost. */
final class SlotUse {
  private val originals = new SlotClock
  private val copies = new SlotClock
  private var lostMs = 0L

  def copiedSlots: Int = copies.slots
  def runMs(atMs: Long): Long = originals.usedMs(atMs)
  def copiedMs(atMs: Long): Long = copies.usedMs(atMs)
  def evictedMs: Long = lostMs

  def launched(slots: Int, copy: Boolean, atMs: Long): Unit = clock(copy).start(slots, atMs)

  def ended(slots: Int, copy: Boolean, evicted: Boolean, startedMs: Long, atMs: Long): Unit = {
    val used = clock(copy).stop(slots, startedMs, atMs)
    if (evicted) {
      clock(copy).less(used)
      lostMs += used
    }
  }

  private def clock(copy: Boolean): SlotClock = if (copy) copies else originals
}
