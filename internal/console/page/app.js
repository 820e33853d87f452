// The frame around all views: navigation, sign-in, the switch for changes, the keyboard.
import { html, render, signal, useEffect, useState } from "./html.js";
import { session, route, writing, mayWrite, theme, link, go } from "./state.js";
import { loadSession, signIn, signOut } from "./api.js";
import { endEarly } from "./send.js";
import { Dialog, Toasts, toast, failed } from "./ui.js";
import { views } from "./views.js";

function App() {
  const who = session.value;
  if (!who) return html`<p class="loading" role="status">Connecting …</p>`;
  if (!who.signedIn) return html`<${SignIn} how=${who.signIn} /><${Toasts} />`;
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <${Header} who=${who} />
    <main id="main" tabindex="-1"><${View} /></main>
    <${Help} /><${Toasts} />`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

const viewOf = ({ steps }) => views.find((v) => v.step === (steps[0] ?? "tables"));

/** The components of views whose modules are loaded, by their steps. */
const loaded = signal({});

const load = async (view) => {
  if (!view || loaded.value[view.step]) return;
  const { default: component } = await view.load();
  loaded.value = { ...loaded.value, [view.step]: component };
};

/** Finds the view of the address and loads its module. */
function View() {
  const { steps } = route.value;
  const view = viewOf(route.value);
  useEffect(() => {
    load(view).catch(failed);
  }, [view]);
  if (!view) return html`<h1>Not found</h1><p>There is no such page. <a href="#/tables">All tables</a></p>`;
  const Loaded = loaded.value[view.step];
  return Loaded ? html`<${Loaded} steps=${steps.slice(1)} key=${view.step} />` : html`<p class="loading" role="status">Loading …</p>`;
}

function Header({ who }) {
  const current = route.value.steps[0] ?? "tables";
  const at = current === "table" ? "tables" : current;
  return html`<header>
    <a class="brand" href="#/tables"><img src=${new URL("icon.svg", import.meta.url).href} alt="" width="22" height="22" />stator</a>
    <nav aria-label="Views">
      ${views.filter((v) => v.title).map((v) => html`<a href=${link(v.step)} aria-current=${v.step === at ? "page" : undefined}>${v.title}</a>`)}
    </nav>
    <div class="tools">
      <span class="endpoint" title="Endpoint and region">${who.endpoint.url || location.host} · ${who.endpoint.region}</span>
      <${WriteSwitch} />
      <button type="button" class="quiet" onClick=${nextTheme} aria-label=${"Theme: " + (theme.value || "system")} title=${"Theme: " + (theme.value || "system")}>${{ light: "☀", dark: "☾" }[theme.value] ?? "◐"}</button>
      <button type="button" class="quiet" onClick=${() => (help.open = true)} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">?</button>
      ${who.signIn !== "none" && html`<button type="button" class="quiet" onClick=${() => signOut().catch(failed)} title=${who.principal || ""}>Sign out</button>`}
    </div>
  </header>`;
}

function WriteSwitch() {
  if (!mayWrite.value) return html`<span class="badge" title="The console was started for reading: changes are rejected">read-only</span>`;
  return html`<label class=${"switch " + (writing.value ? "on" : "")}>
    <input type="checkbox" role="switch" checked=${writing.value} onChange=${(e) => (writing.value = e.target.checked)} />
    <span>Changes ${writing.value ? "on" : "off"}</span>
  </label>`;
}

function nextTheme() {
  theme.value = { "": "light", light: "dark", dark: "" }[theme.value];
}

function SignIn({ how }) {
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    setBusy(true);
    try {
      await signIn(given);
    } catch (err) {
      failed(err);
    } finally {
      setBusy(false);
    }
  };
  const fields = how === "token"
    ? html`<p>Open the address that <code>stator console</code> has printed, or give its token here.</p>
        <label>Token <input name="secret" type="password" required autocomplete="off" /></label>`
    : html`<p>Sign in with an access key of this server. What you may see and do is what its policies allow.</p>
        <label>Access key <input name="accessKey" required autocomplete="username" spellcheck="false" /></label>
        <label>Secret <input name="secret" type="password" required autocomplete="current-password" /></label>
        <label>Session token <span class="hint">of a temporary key only</span> <input name="sessionToken" type="password" autocomplete="off" /></label>`;
  return html`<main id="main" class="signin"><form class="card" onSubmit=${submit}>
    <h1>stator</h1>${fields}
    <button class="primary" disabled=${busy}>Sign in</button>
  </form></main>`;
}

const help = { set open(on) { helpOpen(on); } };
let helpOpen = () => {};

const shortcuts = [
  ["/", "search, or the first field of a view"],
  ["g t", "tables"], ["g p", "PartiQL"], ["g n", "what happens now"], ["g e", "heat"], ["g c", "cost"], ["g m", "model"],
  ["g i", "items of the table"], ["g h", "past of the table: history, undo, restore"], ["g s", "settings of the table"],
  ["n", "new: table or item"], ["r", "run the query again"], ["e", "show the request and copy it as code"],
  ["↑ ↓ Enter", "move in a grid, open the item"], ["Space", "select the item"], ["[ ]", "previous, next page"], ["p c", "pause, clear the stream"],
  ["t", "items as of a second of the past"], ["< >", "a second earlier, later"], ["{ }", "a minute earlier, later"], ["b", "back to now"], ["h", "history of the item"],
  ["Ctrl Enter", "run or save"], ["Esc", "close"], ["?", "this help"],
];

function Help() {
  const [open, setOpen] = useState(false);
  helpOpen = setOpen;
  if (!open) return null;
  return html`<${Dialog} title="Keyboard" onClose=${() => setOpen(false)}>
    <dl class="keys">${shortcuts.map(([key, what]) => html`<dt>${key.split(" ").map((k) => html`<kbd>${k}</kbd> `)}</dt><dd>${what}</dd>`)}</dl>
  <//>`;
}

// Keys that views handle are events named "key:" and the key; a view calls preventDefault on those it uses.
let pending = "";
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const key = pending ? pending + " " + event.key : event.key;
  pending = "";
  switch (key) {
    case "g": pending = "g"; return;
    case "g t": go("tables"); break;
    case "g p": go("partiql"); break;
    case "g n": go("now"); break;
    case "g e": go("heat"); break;
    case "g c": go("cost"); break;
    case "g m": go("model"); break;
    case "g i": case "g s": case "g h": {
      const { steps } = route.value;
      if (steps[0] !== "table") return;
      go("table", steps[1], { i: "items", s: "settings", h: "past" }[event.key]);
      break;
    }
    case "?": helpOpen(true); break;
    case "/": {
      const field = document.querySelector("[data-search]") ?? document.querySelector("main input, main textarea, main select");
      field?.focus();
      break;
    }
    default: {
      const action = document.querySelector(`[data-key="${CSS.escape(event.key)}"]:not([disabled])`);
      if (!action) return;
      action.click();
    }
  }
  event.preventDefault();
});

async function start() {
  const token = location.hash.match(/^#token=([\w-]+)$/)?.[1];
  if (token) {
    history.replaceState(null, "", "#/tables");
    route.value = { steps: ["tables"], query: "" };
    try {
      await signIn({ secret: token });
    } catch (err) {
      toast(err.message, "error");
    }
  }
  const view = viewOf(route.value);
  const [module] = await Promise.all([view?.load().catch(failed), session.value ?? loadSession()]);
  if (!module) return;
  // It begins before the view is drawn, so that the view finds it.
  const prepared = session.value.signedIn ? module.prepare?.() : undefined;
  loaded.value = { ...loaded.value, [view.step]: module.default };
  await prepared?.catch(() => {}); // the view shows the error
}

let shown = false;

function show() {
  if (shown) return;
  shown = true;
  render(html`<${App} />`, document.getElementById("app"));
}

const maxEmpty = 100; // milliseconds that the page stays empty: each frame that is drawn before its data delays the first view
const timer = setTimeout(show, maxEmpty);
start().then(show, (err) => {
  session.value = null;
  document.getElementById("app").textContent = "The console cannot be reached: " + err.message;
}).finally(() => {
  clearTimeout(timer);
  endEarly();
});
