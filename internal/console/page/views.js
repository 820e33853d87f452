// The views of the console. A view without a title is not in the navigation.

/** @type {{step: string, title?: string, load: () => Promise<{default: Function, prepare?: () => Promise<void>}>}[]} */
export const views = [
  { step: "tables", title: "Tables", load: () => import("./tables.js") },
  { step: "table", load: () => import("./table.js") },
  { step: "now", title: "Now", load: () => import("./now.js") },
  { step: "partiql", title: "PartiQL", load: () => import("./partiql.js") },
  { step: "heat", title: "Heat", load: () => import("./heat.js") },
  { step: "cost", title: "Cost", load: () => import("./cost.js") },
  { step: "model", title: "Model", load: () => import("./model.js") },
];
