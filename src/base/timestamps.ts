/** Strict RFC 3339 timestamps. */

/** RFC 3339 §5.6 `date-time`, with `T` and `Z` in either case. A space instead of `T` is refused. */
const pattern = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

const zeroTimeMs = -62_135_596_800_000;
const minuteMs = 60_000;
const dayMs = 86_400_000;

/**
 * Milliseconds since the Unix epoch; undefined if the text is not an RFC 3339 date-time. Dates must exist. Second 60 is
 * accepted only for possible leap seconds (RFC 3339 §5.7), at 23:59:60 UTC on the last day of a month, and reads as the
 * next instant. Digits beyond milliseconds are dropped.
 */
export function parseTimestamp(text: string): number | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const part = (index: number): number => Number(match[index] ?? 0);
  const [year, month, day, hour, minute, second] = [part(1), part(2), part(3), part(4), part(5), part(6)];
  const [offsetHour, offsetMinute] = [part(9), part(10)];
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return undefined;
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return undefined;
  const offsetMs = (match[8] === "-" ? -1 : 1) * (offsetHour * 60 + offsetMinute) * minuteMs;
  const wholeMinuteMs = midnightMs(year, month, day) + (hour * 60 + minute) * minuteMs - offsetMs;
  if (second === 60 && !isLastMinuteOfMonth(wholeMinuteMs)) return undefined;
  return wholeMinuteMs + second * 1000 + Number(`${match[7] ?? ""}000`.slice(0, 3));
}

/** Whether the instant is 0001-01-01T00:00:00Z, which means an absent timestamp. */
export function isZeroTime(timestampMs: number): boolean {
  return timestampMs === zeroTimeMs;
}

function daysIn(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return [4, 6, 9, 11].includes(month) ? 30 : 31;
}

function midnightMs(year: number, month: number, day: number): number {
  // `Date.UTC` maps the years 0 to 99 to 1900 to 1999.
  return new Date(0).setUTCFullYear(year, month - 1, day);
}

function isLastMinuteOfMonth(minuteStartMs: number): boolean {
  const next = new Date(minuteStartMs + minuteMs);
  return next.getTime() % dayMs === 0 && next.getUTCDate() === 1;
}
