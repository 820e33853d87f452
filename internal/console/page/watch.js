// Metrics of CloudWatch and times, as several views read them.
import { call } from "./api.js";
import { endpointNow } from "./clock.js";

const cloudWatch = "GraniteServiceVersion20100801.";

/** The times that can be chosen: minutes, and how long a point of a chart is. */
export const spans = [
  { name: "1 h", title: "the last hour", minutes: 60, period: 60 },
  { name: "8 h", title: "the last 8 hours", minutes: 480, period: 300 },
  { name: "1 d", title: "the last day", minutes: 1440, period: 900 },
  { name: "7 d", title: "the last 7 days", minutes: 10_080, period: 3600 },
  { name: "35 d", title: "the last 35 days", minutes: 50_400, period: 14_400 },
];

const maxQueries = 400;

/**
 * Statistics of metrics over time.
 * @param {{name: string, table?: string, index?: string, operation?: string, stat: string}[]} metrics
 * @returns {Promise<{at: number, value: number}[][]>} for each metric its points, in order; times are seconds
 */
export async function metricData(metrics, from, to, period) {
  const points = metrics.map(() => []);
  for (let first = 0; first < metrics.length; first += maxQueries) {
    const queries = metrics.slice(first, first + maxQueries).map((m, i) => ({
      Id: "m" + (first + i),
      MetricStat: {
        Metric: {
          Namespace: "AWS/DynamoDB", MetricName: m.name,
          Dimensions: [["TableName", m.table], ["GlobalSecondaryIndexName", m.index], ["Operation", m.operation]].filter((d) => d[1]).map(([Name, Value]) => ({ Name, Value })),
        },
        Period: period, Stat: m.stat,
      },
    }));
    let next;
    do {
      const reply = await call(cloudWatch + "GetMetricData", { MetricDataQueries: queries, StartTime: from, EndTime: to, ScanBy: "TimestampAscending", ...(next && { NextToken: next }) });
      for (const result of reply.MetricDataResults) {
        const of = points[Number(result.Id.slice(1))];
        (result.Timestamps ?? []).forEach((at, i) => of.push({ at: seconds(at), value: result.Values[i] }));
      }
      next = reply.NextToken;
    } while (next);
  }
  return points;
}

/** The keys that a rule of Contributor Insights has counted most. */
export const hotKeys = (rule, from, to) =>
  call(cloudWatch + "GetInsightRuleReport", { RuleName: rule, StartTime: from, EndTime: to, Period: 60, MaxContributorCount: 10 });

export const seconds = (at) => (typeof at === "number" ? at : Date.parse(at) / 1000);

const two = (n) => String(n).padStart(2, "0");

/** The time of day, with the day if it is not today. */
export function clock(at) {
  const d = new Date(at * 1000);
  const time = two(d.getHours()) + ":" + two(d.getMinutes());
  return d.toDateString() === new Date(endpointNow()).toDateString() ? time : `${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

/** A number with three digits that count. */
export function figure(n) {
  if (n === 0 || !Number.isFinite(n)) return "0";
  if (Math.abs(n) >= 1000) return Math.round(n).toLocaleString("en");
  return String(Number(n.toPrecision(3)));
}

/** Dollars, with as many digits as tell something. */
export function dollars(n) {
  if (!n) return "$0";
  if (n < 0.000001) return "< $0.000001";
  if (n < 0.01) return "$" + Number(n.toPrecision(2)).toFixed(8).replace(/0+$/, "");
  return "$" + n.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

export const percent = (share) => (share > 0 && share < 0.01 ? "< 1 %" : Math.round(share * 100) + " %");
