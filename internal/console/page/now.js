// What happens now: streams, triggers, items that expire, and work in the background.
import { html, useEffect, useState } from "./html.js";
import { link } from "./state.js";
import { Problem } from "./ui.js";
import { listStreams } from "./tail.js";
import { useReply } from "./poll.js";
import "./nowstyle.js";

const tabs = [
  { step: "streams", title: "Streams", view: Streams },
  { step: "triggers", title: "Triggers", load: () => import("./triggers.js") },
  { step: "expiry", title: "Time to live", load: () => import("./expiry.js") },
  { step: "jobs", title: "Jobs", load: () => import("./jobs.js") },
];

export default function Now({ steps: [step = "streams", ...rest] }) {
  const [loaded, setLoaded] = useState({});
  const [error, setError] = useState(null);
  const tab = tabs.find((t) => t.step === step) ?? tabs[0];
  useEffect(() => {
    if (tab.load && !loaded[tab.step]) tab.load().then((m) => setLoaded((before) => ({ ...before, [tab.step]: m.default })), setError);
  }, [tab]);
  const View = tab.view ?? loaded[tab.step];
  return html`<div class="bar"><h1>Now</h1><span class="push"></span>
      <nav class="tabs" aria-label="What happens now">${tabs.map((t) => html`<a href=${link("now", t.step)} aria-current=${t === tab ? "page" : undefined}>${t.title}</a>`)}</nav></div>
    <${Problem} error=${error} />
    ${View && html`<${View} steps=${rest} key=${tab.step} />`}`;
}

/** Whether the endpoint does not have an operation. */
export const lacks = (error) => error?.code === "UnknownOperationException";

function Streams() {
  const [streams, error] = useReply(listStreams, 10000);
  if (lacks(error)) return html`<div class="card"><h2>No streams</h2><p>This endpoint does not have DynamoDB Streams.</p></div>`;
  const byTable = Object.entries(Object.groupBy(streams ?? [], (s) => s.TableName)).sort(([a], [b]) => (a < b ? -1 : 1));
  return html`<${Problem} error=${error} />
    ${streams && byTable.length === 0 && html`<div class="card"><h2>No streams</h2><p>No table has a stream. Open a table, and switch its stream on under <em>Stream</em>.</p></div>`}
    ${byTable.length > 0 && html`<div class="scroll"><table class="list"><thead><tr><th scope="col">Table</th><th scope="col">Newest stream since</th><th scope="col" class="number">Streams that can be read</th></tr></thead>
      <tbody>${byTable.map(([table, list]) => html`<tr key=${table}><td><a href=${link("table", table, "stream")}>${table}</a></td>
        <td>${list.map((s) => s.StreamLabel).sort().at(-1)?.replace("T", " ").replace(/\.\d+$/, "")}</td><td class="number">${list.length}</td></tr>`)}</tbody></table></div>`}`;
}
