// Charts of a table or an index: what it consumes, what is throttled, how long requests take.
import { html, useEffect, useState } from "./html.js";
import { endpointNow } from "./clock.js";
import { Problem } from "./ui.js";
import { Chart } from "./charts.js";
import { metricData } from "./watch.js";

const operations = ["GetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem", "BatchGetItem", "BatchWriteItem", "TransactGetItems", "TransactWriteItems", "ExecuteStatement"];
const refreshTime = 30_000;

export function HeatCharts({ table, index, span }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const read = async () => {
    const to = Math.floor(endpointNow() / 1000 / span.period) * span.period + span.period, from = to - span.minutes * 60;
    const of = { table, index };
    const units = [
      { ...of, name: "ConsumedReadCapacityUnits", stat: "Sum" }, { ...of, name: "ConsumedWriteCapacityUnits", stat: "Sum" },
      { ...of, name: "ProvisionedReadCapacityUnits", stat: "Average" }, { ...of, name: "ProvisionedWriteCapacityUnits", stat: "Average" },
      { ...of, name: "ReadThrottleEvents", stat: "Sum" }, { ...of, name: "WriteThrottleEvents", stat: "Sum" },
    ];
    const latencies = operations.flatMap((operation) => ["p50", "p99"].map((stat) => ({ table, operation, name: "SuccessfulRequestLatency", stat })));
    try {
      const points = await metricData([...units, ...latencies], from, to, span.period);
      setFound({ from, to, period: span.period, units: points.slice(0, units.length), latencies: points.slice(units.length) });
      setError(null);
    } catch (err) {
      setError(err);
    }
  };
  useEffect(() => {
    setFound(null);
    read();
    const timer = setInterval(() => { if (!document.hidden && !error) read(); }, refreshTime);
    return () => clearInterval(timer);
  }, [table, index, span]);
  if (error) {
    return html`<section class="card"><h2>Charts</h2>${error.code === "UnknownOperationException" || error.code === "Unreadable"
      ? html`<p class="hint">This endpoint has no metrics of CloudWatch.</p>` : html`<${Problem} error=${error} />`}</section>`;
  }
  if (!found) return html`<p class="loading" role="status">Reading metrics …</p>`;
  const perSecond = (points) => points.map((p) => ({ at: p.at, value: p.value / found.period }));
  const [read_, write, provisionedRead, provisionedWrite, readThrottles, writeThrottles] = found.units;
  const latency = (offset) => operations.map((name, i) => ({ name, points: found.latencies[2 * i + offset] })).filter((s) => s.points.length > 0)
    .sort((a, b) => b.points.length - a.points.length).slice(0, 6).map((s, i) => ({ ...s, kind: i }));
  const time = { from: found.from, to: found.to, period: found.period };
  return html`<div class="charts">
    <${Chart} ...${time} zeros title="Read units" unit="a second" series=${[{ name: "consumed", points: perSecond(read_), kind: 0 }, { name: "provisioned", points: provisionedRead, kind: "limit" }]} />
    <${Chart} ...${time} zeros title="Write units" unit="a second" series=${[{ name: "consumed", points: perSecond(write), kind: 0 }, { name: "provisioned", points: provisionedWrite, kind: "limit" }]} />
    <${Chart} ...${time} title="Latency, median" unit=${"milliseconds" + (index ? ", of the table" : "")} series=${latency(0)} />
    <${Chart} ...${time} title="Latency, 99th percentile" unit=${"milliseconds" + (index ? ", of the table" : "")} series=${latency(1)} />
    <${Chart} ...${time} zeros title="Throttled" unit="requests" series=${[{ name: "reads", points: readThrottles, kind: 1 }, { name: "writes", points: writeThrottles, kind: "bad" }]} />
  </div>`;
}
