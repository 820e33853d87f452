// State that several views share.
import { signal, computed, effect } from "./html.js";
import { stored, store } from "./send.js";

/**
 * What the console says about itself and about who has signed in; null until it is known.
 * @type {{value: null | {signIn: string, signedIn: boolean, principal?: string, accessKey?: string,
 *   mode: string, version: string, endpoint: {url: string, region: string, aws: boolean, notice: string}}}}
 */
export const session = signal(null);

/** Whether changes are switched on. They are off at the start of a session. */
export const writing = signal(false);

/** Whether the console could change something at all. */
export const mayWrite = computed(() => session.value?.mode === "write");

/** The part of the address after "#/", as a list of decoded steps, and what follows "?". */
export const route = signal(readRoute());

function readRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { steps: path.split("/").filter(Boolean).map(decode), query: decode(query) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

addEventListener("hashchange", () => (route.value = readRoute()));

/** The address of a view, such as link("table", name, "items"). */
export const link = (...steps) => "#/" + steps.map(encodeURIComponent).join("/");

/** Goes to a view. */
export function go(...steps) {
  location.hash = link(...steps);
}

/** Replaces what follows "?" in the address, without a new entry in the history. */
export function replaceQuery(text) {
  const [path] = location.hash.split("?");
  history.replaceState(null, "", path + (text ? "?" + encodeURIComponent(text) : ""));
}

/** "light", "dark", or "" for that of the system. */
export const theme = signal(stored("theme") ?? "");

effect(() => {
  if (theme.value) document.documentElement.dataset.theme = theme.value;
  else delete document.documentElement.dataset.theme;
  store("theme", theme.value);
});

/** The statement that is being written. It has values of items, so that it stays in this tab, and only until somebody else signs in. */
export const draft = signal(storedDraft());

function storedDraft() {
  try {
    return sessionStorage.getItem("stator-statement") ?? "";
  } catch {
    return "";
  }
}

effect(() => {
  const { value } = draft; // before the storage is looked for, so that changes are followed without one
  try {
    sessionStorage.setItem("stator-statement", value);
  } catch {
    // it is forgotten when the page is loaded again
  }
});

/** Counts the people who have used the page, one after the other: what one has opened is not for the next. */
export const person = signal(0);

/** Names of all tables; null until they are known. */
export const tableNames = signal(null);
