// A value while it is edited: text that is not valid yet, attributes without a name yet.
import { typeOf, textFault } from "./values.js";

/**
 * @typedef {{id: number, type: string, text: string, parts: {id: number, name: string, node: Node}[]}} Node
 * parts are the attributes of a map, the elements of a list, or the members of a set.
 */

let lastID = 0;
const newID = () => ++lastID;

const memberType = { SS: "S", NS: "N", BS: "B" };

export const isSet = (type) => type in memberType;
export const isNested = (type) => type === "M" || type === "L" || isSet(type);

/** The type of a new part of a value. */
export const partType = (type) => memberType[type] ?? "S";

export const newNode = (type) => ({ id: newID(), type, text: type === "BOOL" ? "true" : "", parts: isSet(type) ? [newPart("", newNode(memberType[type]))] : [] });

export const newPart = (name, node) => ({ id: newID(), name, node });

/** @returns {Node} */
export function nodeOf(value) {
  const type = typeOf(value), inner = value[type];
  const node = { id: newID(), type, text: "", parts: [] };
  if (type === "M") node.parts = Object.keys(inner).map((k) => newPart(k, nodeOf(inner[k])));
  else if (type === "L") node.parts = inner.map((v) => newPart("", nodeOf(v)));
  else if (isSet(type)) node.parts = inner.map((m) => newPart("", nodeOf({ [memberType[type]]: m })));
  else node.text = String(inner);
  return node;
}

/** The value of a node; the node must have no fault. */
export function valueOf(node) {
  switch (node.type) {
    case "M": return { M: Object.fromEntries(node.parts.map((p) => [p.name, valueOf(p.node)])) };
    case "L": return { L: node.parts.map((p) => valueOf(p.node)) };
    case "SS": case "NS": case "BS": return { [node.type]: node.parts.map((p) => p.node.text) };
    case "BOOL": return { BOOL: node.text === "true" };
    case "NULL": return { NULL: true };
  }
  return { [node.type]: node.text };
}

/** What is wrong with a node itself, not with its parts. */
export function nodeFault(node) {
  if (node.type === "M") {
    const names = node.parts.map((p) => p.name);
    if (names.includes("")) return "An attribute needs a name.";
    const seen = new Set();
    const twice = names.find((n) => seen.size === seen.add(n).size);
    return twice === undefined ? "" : `The name ${JSON.stringify(twice)} is used twice.`;
  }
  if (isSet(node.type)) {
    if (node.parts.length === 0) return "A set has at least one member.";
    const texts = node.parts.map((p) => p.node.text);
    return new Set(texts).size === texts.length ? "" : "A set has each member once.";
  }
  return textFault(node.type, node.text);
}

/** Whether a node or a part of it has a fault. */
export const hasFault = (node) => nodeFault(node) !== "" || node.parts.some((p) => hasFault(p.node));
