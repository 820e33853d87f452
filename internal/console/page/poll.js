// Reading again and again while a view is open, and times as these views show them.
import { useEffect, useState } from "./html.js";
import { endpointNow } from "./clock.js";
import { call } from "./api.js";

const deniedTime = 60_000; // milliseconds before a request that was denied is sent again

/** The requests of the open view that were denied, with their errors. */
const denied = new Map();

/**
 * Sends a request of a view that reads again and again. If policies deny it, it is sent again after a minute, or when the view is opened
 * again: the server writes denials down, and explains the last ones only.
 */
export async function callOften(operation, input, abort) {
  const id = operation + JSON.stringify(input), known = denied.get(id);
  if (known && performance.now() < known.until) throw known.error;
  try {
    return await call(operation, input, abort);
  } catch (error) {
    if (error.code === "AccessDeniedException") denied.set(id, { error, until: performance.now() + deniedTime });
    throw error;
  }
}

/**
 * Calls read now and every so many milliseconds, one call after the other, until the view is closed. A page that nobody
 * sees does not read.
 * @param {(signal: AbortSignal) => Promise<boolean>} read does not throw, and says whether to read again
 * @param {any[]} given what read depends on; it starts again when that changes
 */
export function usePoll(read, every, given = []) {
  useEffect(() => {
    denied.clear();
    const abort = new AbortController();
    let timer;
    const tick = async () => {
      const more = document.hidden || (await read(abort.signal));
      if (more && !abort.signal.aborted) timer = setTimeout(tick, every);
    };
    tick();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, given);
}

/** Keeps the reply of a request that is sent again and again, and the error of the last one. An endpoint that lacks it is asked once. */
export function useReply(ask, every, given = []) {
  const [reply, setReply] = useState(null);
  const [error, setError] = useState(null);
  usePoll(async (signal) => {
    try {
      const found = await ask(signal);
      if (signal.aborted) return false;
      setReply(found);
      setError(null);
      return true;
    } catch (err) {
      if (!signal.aborted) setError(err);
      return err.code !== "UnknownOperationException";
    }
  }, every, given);
  return [reply, error];
}

/** Calls do for each of some things, a few at a time. */
export async function each(things, task, atOnce = 4) {
  const waiting = [...things];
  const next = async () => {
    for (let thing; (thing = waiting.shift()) !== undefined; ) await task(thing);
  };
  await Promise.all(Array.from({ length: atOnce }, next));
}

/** A time of a reply, in seconds: the time of day, with the date unless it is today. */
export function clockTime(seconds) {
  if (!seconds) return "–";
  const at = new Date(seconds * 1000);
  const time = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date(endpointNow()).toDateString() ? time : `${at.toLocaleDateString("sv-SE")} ${time}`;
}

/** How long something takes, with one unit or two. */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  const of = (n, unit, rest, part) => `${n} ${unit}${rest ? ` ${rest} ${part}` : ""}`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return of(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86400) return of(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return of(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
}

/** How long ago a time of a reply was. */
export const since = (seconds) => duration(endpointNow() / 1000 - seconds);
