// The access-pattern model that several views show.
import { html, effect, signal, useEffect, useState } from "./html.js";
import { person } from "./state.js";
import { call } from "./api.js";
import { Problem } from "./ui.js";

/**
 * The model, with the traffic that a person tries: a multiple of all rates, and rates of patterns. Null until it is known
 * whether the console was started with one; without text there is none.
 * @type {import("./vendor/signals.js").Signal<null | {name: string, text: string, given: boolean, times: number, rates: Record<string, string>}>}
 */
export const design = signal(null);

effect(() => {
  if (person.value >= 0) design.value = null;
});

/** Starts again with a text. */
export const setDesign = (name, text, given = false) => (design.value = { name, text, given, times: 1, rates: {} });

/** What operations of the workbench need. */
export const designInput = (d) => ({ Name: d.name, Text: d.text, Times: d.times, Rates: d.rates });

/** Reads the model that the console was started with, unless a person has chosen one. */
export async function loadDesign(again = false) {
  if (design.value && !again) return;
  const found = await call("Workbench.GetModel");
  setDesign(found.Name ?? "", found.Text ?? "", found.Given);
}

export function useDesign() {
  const [error, setError] = useState(null);
  useEffect(() => {
    loadDesign().catch((err) => { setError(err); setDesign("", ""); });
  }, []);
  return [design.value, error];
}

/** A field that opens a model file of this machine. */
export function ChooseModel({ label = "Open a model file", error }) {
  const [problem, setProblem] = useState(null);
  const choose = async (event) => {
    const file = event.target.files[0];
    if (!file) return;
    if (file.size > 1 << 20) setProblem({ code: "TooLarge", message: "A model has at most 1 MB." });
    else {
      setDesign(file.name, await file.text());
      setProblem(null);
    }
    event.target.value = "";
  };
  return html`<label class="pick">${label}<input type="file" accept=".yaml,.yml" onChange=${choose} /></label><${Problem} error=${problem ?? error} />`;
}
