// The second of the past that a list of items shows.
import { html, useEffect, useRef, useState } from "./html.js";
import { endpointNow } from "./clock.js";
import { KeptText, TimeField, agoText, timeOf, timeText, useKept } from "./past.js";

const presets = ["1m", "5m", "1h", "1d"];
const steps = [["−1h", -3600], ["−1m", -60, "{"], ["−1s", -1, "<"], ["+1s", 1, ">"], ["+1m", 60, "}"], ["+1h", 3600]];

/** The request of a list of items, of the past if at is a second. */
export const atSecond = ({ operation, input }, at) => (at ? { operation: `Stator.${operation}At`, input: { ...input, AsOf: at } } : { operation, input });

/** Shows the second that is shown, and chooses another one; 0 is now. choosing says whether the form is open. */
export function AsOf({ table, at, choosing, onChoosing, onChange }) {
  const choice = choosing && html`<${Choice} table=${table} at=${at} onCancel=${() => onChoosing(false)} onChange=${onChange} />`;
  if (!at) return choice || null;
  const latest = Math.floor(endpointNow() / 1000) - 1;
  return html`<section class="past-mark" aria-label="The past"><div class="row middle">
    <span class="when"><strong>As of ${timeText(at)}</strong> <span title="Indexes are read as if those of today had existed then">${agoText(at)}, read-only</span></span><span class="push"></span>
    <span class="row middle" role="group" aria-label="Other seconds">${steps.map(([title, by, key]) => html`<button type="button" data-key=${key} disabled=${at + by > latest} onClick=${() => onChange(at + by)}>${title}</button>`)}</span>
    <button type="button" data-key="t" aria-expanded=${choosing} onClick=${() => onChoosing(!choosing)}>Other time …</button>
    <button type="button" class="primary" data-key="b" onClick=${() => onChange(0)}>Back to now</button>
  </div></section>${choice}`;
}

function Choice({ table, at, onCancel, onChange }) {
  const [text, setText] = useState(at ? timeText(at) : "5m");
  const kept = useKept(table);
  const ref = useRef(null);
  const { second } = timeOf(text);
  useEffect(() => {
    const field = ref.current.querySelector("input");
    field.focus();
    field.select();
  }, []);
  const show = (event) => {
    event.preventDefault();
    if (second !== undefined) onChange(second);
  };
  return html`<form class="card form builder past-choice" ref=${ref} onSubmit=${show} onKeyDown=${(e) => e.key === "Escape" && onCancel()}>
    <${TimeField} label="The table as of" value=${text} onInput=${setText} />
    <div class="row middle"><button class="primary" disabled=${second === undefined}>Show</button>
      <span class="row middle" role="group" aria-label="How long ago">${presets.map((p) => html`<button type="button" onClick=${() => onChange(timeOf(p).second)}>${p} ago</button>`)}</span>
      <button type="button" onClick=${onCancel}>Cancel</button><span class="push"></span><${KeptText} table=${table} kept=${kept} /></div>
  </form>`;
}
