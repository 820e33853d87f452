// The access-pattern model that several views show.
import { html, effect, signal, useEffect, useState } from "./html.js";
import { person } from "./state.js";
import { call } from "./api.js";
import { Problem } from "./ui.js";

/**
 * The model, with the traffic that a person tries: a multiple of all rates, and rates of patterns. Null until it is known
 * whether the console was started with one; without text there is none, for the reason in error if there is one.
 * @type {{value: null | {name: string, text: string, given: boolean, times: number, rates: Record<string, string>, error?: Error}}}
 */
export const design = signal(null);

effect(() => {
  if (person.value >= 0) design.value = null;
});

/** Starts again with a text. */
export const setDesign = (name, text, given = false) => (design.value = { name, text, given, times: 1, rates: {} });

/** What operations of the workbench need. */
export const designInput = (d) => ({ Name: d.name, Text: d.text, Times: d.times, Rates: d.rates });

/** The action that policies must allow for all that has to do with models. */
const action = "stator:GetModel";

/** Whether an error says that policies do not allow that. */
export const isDenied = (error) => error?.code === "AccessDeniedException" && error.message.includes(action);

/** Reads the model that the console was started with, unless a person has chosen one. If it is read again, what was read before stays when that fails. */
export async function loadDesign(again = false) {
  if (design.value && !design.value.error && !again) return;
  try {
    const found = await call("Workbench.GetModel");
    setDesign(found.Name ?? "", found.Text ?? "", found.Given);
  } catch (error) {
    if (again) throw error;
    if (!design.value?.text) design.value = { name: "", text: "", given: false, times: 1, rates: {}, error };
  }
}

export function useDesign() {
  useEffect(() => { loadDesign(); }, []);
  return design.value;
}

/** Why there is no model, or why it cannot be used. */
export const ModelProblem = ({ error }) => html`<${Problem} error=${error} title=${isDenied(error) && "You may not see the model."} />
  ${isDenied(error) && html`<p class="hint">Whoever manages the policies of this server can allow the action <code>${action}</code>.</p>`}`;

/** A field that opens a model file of this machine, for those who may have models computed. */
export function ChooseModel({ label = "Open a model file" }) {
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
  if (isDenied(design.value?.error)) return null;
  return html`<label class="pick">${label}<input type="file" accept=".yaml,.yml" onChange=${choose} /></label><${Problem} error=${problem} />`;
}
